"""What tests of the program share: failures, and a run that is killed."""
import os
import signal
import subprocess
import sys
import time

failures = []


def check(good, text):
    if not good:
        failures.append(text)
        print(f"FAILED: {text}", flush=True)
    return good


def finish():
    """End the test: exit status 0 without failures, else 1."""
    print(f"{len(failures)} failures" if failures else "passed")
    sys.exit(1 if failures else 0)


def kill_when_saved(command, out):
    """Run a training in the parent of `out`, its directory, and kill all ranks after the first
    checkpoint."""
    run = subprocess.Popen(command, cwd=out.parent, start_new_session=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while run.poll() is None and not list(out.glob("ckpt-g*.h5")):
        time.sleep(0.002)
    if run.poll() is None:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    if (out / "model.h5").exists():
        print(f"{out.name} was over before it could be killed")
