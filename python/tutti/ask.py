"""The oracle command of a campaign whose oracle is a function in another process: passes the paths
of input and output to that process and exits with its answer. Started as a script, with the
standard library only, because a campaign starts it for every call."""
import json
import os
import socket
import sys


def main(name: str, source: str, target: str) -> int:
    """Ask, wait for the answer; its exit code."""
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(name)
        except OSError as why:
            print(f"{os.path.abspath(name)}: {why}: the process with the oracle is not on this "
                  "machine, or has ended", file=sys.stderr)
            return 69
        line.sendall(json.dumps([source, target]).encode() + b"\n")
        answer = line.makefile().readline()
    code, message = json.loads(answer) if answer else (75, "the process with the oracle has ended")
    print(message, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
