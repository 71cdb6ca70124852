#!/usr/bin/python3
"""A complete Slurm on this machine for the tests: munged, slurmctld and one slurmd per virtual
node.

    cluster.py start DIR     ends by itself after 20 minutes
    cluster.py stop DIR

All files are in DIR; the daemons listen on 127.0.0.1. If Slurm is not installed, `start` writes the
reason to DIR/skipped and the tests are skipped. Observations with Slurm 22.05:
- `slurmd -N` (Debian builds it) with config_overrides lets one machine be several nodes of 4 CPUs.
- A GPU needs a device as File= in gres.conf, or the node is INVALID; any device is accepted.
- TmpFS=.../%n: srun --mpi=pmix over several virtual nodes collides in /tmp.
- cred_expire is also how long a requeued job waits: 5 s here, 2 minutes by default.
- CgroupPlugin=cgroup/v1 with linuxproc and task/none touches no cgroup.
"""
import contextlib
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time

LIFE = 1200  # seconds, then the daemons end by themselves
NEEDED = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "squeue")
# main: for all; prey: preempted by high; frail: its nodes are killed; sites: as large as nodes of
# real clusters, for sbatch --test-only, and for jobs that want whole nodes
MAIN, PREY, FRAIL, SITES = ("n1", "n2", "n3", "n4"), ("p1", "p2"), ("f1", "f2"), ("s1", "s2", "s3")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts/ptmx")  # as GPUs
NODES = MAIN + PREY + FRAIL + SITES
CONF = """\
ClusterName=tutti
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={run}/munge.socket,cred_expire=5
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmctldParameters=preempt_send_user_signal
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=100000,batch_sched_delay=0
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
GresTypes=gpu
MpiDefault=none
ReturnToService=2
JobRequeue=1
KillWait=3
KillOnBadExit=0
MinJobAge=3600
MessageTimeout=30
SlurmdTimeout=120
InactiveLimit=0
BatchStartTimeout=30
UnkillableStepTimeout=60
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
StateSaveLocation={run}/state
SlurmdSpoolDir={run}/spool.%n
TmpFS={run}/tmp.%n
SlurmctldPidFile={run}/pid/slurmctld
SlurmdPidFile={run}/pid/slurmd.%n
SlurmctldLogFile={run}/log/slurmctld
SlurmdLogFile={run}/log/slurmd.%n
PartitionName=main Nodes={main} Default=YES MaxTime=60 DefaultTime=10 PriorityTier=10
PartitionName=prey Nodes={prey} MaxTime=60 PriorityTier=10 PreemptMode=REQUEUE GraceTime=20
PartitionName=high Nodes={prey} MaxTime=60 PriorityTier=100 PreemptMode=OFF
PartitionName=frail Nodes={frail} MaxTime=60 PriorityTier=10
PartitionName=sites Nodes={sites} MaxTime=1440 PriorityTier=10
"""
NODE = ("NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} Boards=1 "
        "SocketsPerBoard=1 CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory=1000 Gres=gpu:{gpus} "
        "Feature=gpu,v100-32g,a100,h100\n")


def environment(run):
    """What users of the cluster need. Its nodes share one host name, so Open MPI's shared memory
    would collide; UCX over the loopback device does not."""
    return {"SLURM_CONF": str(run / "etc" / "slurm.conf"),
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_pml": "ucx", "OMPI_MCA_osc": "ucx", "OMPI_MCA_pml_ucx_tls": "any",
            "OMPI_MCA_pml_ucx_devices": "any", "UCX_TLS": "self,tcp", "UCX_NET_DEVICES": "lo",
            "UCX_WARN_UNUSED_ENV_VARS": "n", "UCX_KEEPALIVE_INTERVAL": "inf",
            "OMPI_MCA_mpi_yield_when_idle": "1",
            "OMP_NUM_THREADS": "1"}


def free_ports(count):
    """Ports that no program is given for a connection before the daemons bind them: below the range
    of such ports."""
    last = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found = []
    for port in random.sample(range(10240, last), last - 10240):
        with contextlib.suppress(OSError), socket.socket() as one:
            one.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    sys.exit(f"cluster: no {count} free ports from 10240 to {last - 1}")


def gpus(node):
    return 8 if node in SITES else 4


def configure(run):
    for name in ["etc", "state", "log", "pid"] + [f"{d}.{n}" for d in ("spool", "tmp")
                                                         for n in NODES]:
        (run / name).mkdir(parents=True)
    run.chmod(0o755)
    host = socket.gethostname().split(".")[0]
    ports = free_ports(1 + len(NODES))
    text = CONF.format(host=host, port=ports[0], user=os.popen("id -un").read().strip(), run=run,
                       main=",".join(MAIN), prey=",".join(PREY), frail=",".join(FRAIL), sites=",".join(SITES))
    nodes = "".join(NODE.format(node=n, host=host, port=p, cpus=288 if n in SITES else 4,
                                gpus=gpus(n))
                    for n, p in zip(NODES, ports[1:]))
    at = text.index("PartitionName")
    (run / "etc" / "slurm.conf").write_text(text[:at] + nodes + text[at:])
    (run / "etc" / "gres.conf").write_text("".join(
        f"NodeName={n} Name=gpu File=/dev/{d}\n" for n in NODES for d in DEVICES[:gpus(n)]))
    (run / "etc" / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    with open(os.open(run / "munge.key", os.O_CREAT | os.O_WRONLY, 0o600), "wb") as key:
        key.write(os.urandom(1024))


def daemon(run, name, *command):
    """Start a daemon in its own session, under `timeout`; record its process number."""
    with open(run / "log" / f"{name}.out", "w") as log:
        process = subprocess.Popen(
            ["timeout", "-k", "5", str(LIFE), *command], stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "SLURM_CONF": str(run / "etc" / "slurm.conf")})
    (run / "pid" / f"timeout.{name}").write_text(str(process.pid))


def wait_until(what, ready, limit=60):
    end = time.monotonic() + limit
    while not ready():
        if time.monotonic() > end:
            sys.exit(f"cluster: {what} took more than {limit} s")
        time.sleep(0.2)


def start_node(run, node):
    daemon(run, node, "slurmd", "-D", "-c", "-N", node)


def idle_nodes(run):
    done = subprocess.run(["sinfo", "-h", "-N", "-t", "idle", "-o", "%N"], capture_output=True,
                          text=True, env={**os.environ, **environment(run)}, check=False)
    return set(done.stdout.split())


def start(run):
    shutil.rmtree(run, ignore_errors=True)
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing:
        run.mkdir(parents=True)
        (run / "skipped").write_text(f"no {', '.join(missing)}; Debian: slurmctld slurmd "
                                     "slurm-client munge\n")
        print((run / "skipped").read_text())
        return
    configure(run)
    daemon(run, "munged", "munged", "--force", "--foreground", f"--key-file={run}/munge.key",
           f"--socket={run}/munge.socket", f"--pid-file={run}/pid/munged",
           f"--log-file={run}/log/munged", f"--seed-file={run}/munge.seed")
    wait_until("munged", (run / "munge.socket").exists)
    daemon(run, "slurmctld", "slurmctld", "-D", "-i", "-c")
    for node in NODES:
        start_node(run, node)
    wait_until("the nodes", lambda: idle_nodes(run) == set(NODES))


def signal_all(run, pattern, number):
    """True if a process was still running."""
    found = False
    for file in (run / "pid").glob(pattern):
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(file.read_text()), number)
            found = True
    return found


def sweep(run):
    """Slurm 22.05 sometimes leaves a slurmstepd behind after steps with PMIx."""
    mark = f"SLURM_CONF={run}/etc/slurm.conf".encode()
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cmdline").read_bytes().startswith(b"slurmstepd") and \
                    mark in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)


def stop(run):
    if not (run / "etc" / "slurm.conf").exists():
        return
    env = {**os.environ, **environment(run)}
    subprocess.run(["timeout", "10", "scancel", "-f", "-u", str(os.getuid())], env=env, check=False)
    with contextlib.suppress(SystemExit):
        wait_until("the end of the jobs", lambda: idle_nodes(run) >= set(MAIN + PREY), 15)
    signal_all(run, "timeout.*", signal.SIGTERM)
    end = time.monotonic() + 10
    while signal_all(run, "timeout.*", 0) and time.monotonic() < end:
        time.sleep(0.1)
    signal_all(run, "*", signal.SIGKILL)
    sweep(run)


if __name__ == "__main__":
    {"start": start, "stop": stop}[sys.argv[1]](pathlib.Path(sys.argv[2]).resolve())
