#!/usr/bin/python3
"""bash, shellcheck and sbatch accept every template, every script of an example and every site block,
unchanged and as `tutti slurm` writes it."""
import re
import shutil

import slurm_rig as rig
from slurm_rig import h

CAMPAIGN = "pool: {file: pool.h5, labels: y}\nlabel: {mode: hidden}\n"
SITE = re.compile(r"(?s)# ---- site.*# ---- end of site\n")


def accept(folder, name, text):
    """bash -n, shellcheck, sbatch --test-only: without the options that only the site knows."""
    file = folder / name.replace("/", "-")
    file.write_text(text)
    done = rig.command("bash", "-n", file)
    h.check(done.returncode == 0, f"{name}: bash -n\n{done.stderr}")
    if shutil.which("shellcheck"):
        done = rig.command("shellcheck", file)
        h.check(done.returncode == 0, f"{name}: shellcheck\n{done.stdout}")
    done = rig.command("sbatch", "--test-only", "--partition=sites", file, folder=folder)
    h.check(done.returncode == 0, f"{name}: sbatch --test-only\n{done.stderr}")


def generic_block(template, text):
    """Scripts of examples have their own number of GPUs."""
    block = (rig.SCRIPTS / "site" / "generic").read_text()
    return block if template.parent == rig.SCRIPTS else block.replace("-node=4", f"-node={gpus_of(text)}")


def written(folder, *options, file="job.yaml"):
    done = rig.command(h.TUTTI, "slurm", *options, file, folder=folder)
    h.check(done.returncode == 0, f"tutti slurm {options}: {done.returncode}\n{done.stderr}")
    return done.stdout


def gpus_of(block):
    return int(re.search(r"--ntasks-per-node=(\d+)", block)[1])


def check_written(folder, site, block):
    """The template with the block of the site, the requested numbers, and the output of plan."""
    text = written(folder, "train", "--site", site, "--nodes", "2", "--time", "1:00:00")
    accept(folder, f"tutti-slurm-{site}", text)
    for words in (block, "#SBATCH --nodes=2\n", "#SBATCH --time=1:00:00\n", "job='job.yaml'\n",
                  "# memory per rank\n", f"# ranks      {2 * gpus_of(block)}: "):
        h.check(words in text, f"tutti slurm --site {site}: no {words!r} in\n{text}")
    array = written(folder, "array", "--site", site, "--gpus-per-node", "2")
    accept(folder, f"tutti-slurm-array-{site}", array)
    h.check("#SBATCH --array=0-7" in array and "--ntasks-per-node=2\n" in array, array)


def check_campaign(folder, site, block):
    """The script of a campaign, with the output of plan for the training of a round."""
    text = written(folder, "campaign", "--site", site, "--nodes", "2", file="campaign.yaml")
    accept(folder, f"tutti-slurm-campaign-{site}", text)
    for words in (block, "#SBATCH --nodes=2\n", "job='campaign.yaml'\n", "# Training of one round",
                  "# memory per rank\n", "# rounds     at most 100 of 10 queries each", 'tutti campaign run "${run[@]}"\n', 'tutti slurm requeue "${run[@]}"'):
        h.check(words in text, f"tutti slurm campaign --site {site}: no {words!r} in\n{text}")


def check_signal(folder):
    """A short job gets its signal a tenth of its time before the end."""
    for time, seconds in (("0:01:00", 6), ("1", 6), ("50", 300), ("49:50", 299), ("1-0", 300),
                          ("0-0:30", 180), ("0:00:05", 1)):
        text = written(folder, "train", "--time", time)
        h.check(f"#SBATCH --time={time}\n" in text and f"--signal=USR1@{seconds}\n" in text,
                f"--time {time}: not signal {seconds}\n{text}")


def check_refusals(folder):
    for options, code, words in (
            (["train", "--site", "nowhere", "job.yaml"], 64, "alps, generic, jean-zay, jean-zay-a100, jean-zay-h100"),
            (["train", "--nodes", "0", "job.yaml"], 64, "'0' is not a whole number"),
            (["train", "--time", "2 weeks", "job.yaml"], 64, "'2 weeks' is not a time"),
            (["train", "--site", "jean-zay", "--gpus-per-node", "8", "job.yaml"], 64,
             "the nodes of site jean-zay have 4 GPUs"),
            (["train", "--time", "1:00:", "job.yaml"], 64, "'1:00:' is not a time"),
            (["train", "--time", "0", "job.yaml"], 64, "'0' is not a time"),
            (["campaign", "job.yaml"], 64, "job.yaml has none of the sections of a campaign"),
            (["train", "no.yaml"], 66, "no.yaml"), (["sing"], 64, "unknown verb 'sing'"),
            (["requeue", "job.yaml"], 64, "not a job of Slurm")):
        done = rig.command(h.TUTTI, "slurm", *options, folder=folder)
        h.check(done.returncode == code and words in done.stderr,
                f"tutti slurm {options}: {done.returncode}\n{done.stderr}")


def main():
    with rig.workplace() as folder:
        job = h.JOB.replace("members: 4", "members: 40")  # more than any site has GPUs on two nodes
        (folder / "job.yaml").write_text(job)
        (folder / "campaign.yaml").write_text(job + CAMPAIGN)
        shutil.copy(folder / "data.h5", folder / "pool.h5")
        templates = sorted([*rig.SCRIPTS.glob("*.sbatch"), *h.ROOT.glob("examples/*/*.sbatch")])
        sites = sorted((rig.SCRIPTS / "site").iterdir())
        for template in templates:
            text = template.read_text()
            accept(folder, template.name, text)
            h.check(len(re.findall(r'"\$job"', text)) == ("slurm requeue" in text),
                    f"{template.name}: only run=() has the job file, so that all commands get its options")
            h.check(SITE.search(text)[0] == generic_block(template, text),
                    f"{template.name} does not have the generic block")
        for site in sites:
            check_written(folder, site.name, site.read_text())
            check_campaign(folder, site.name, site.read_text())
        check_signal(folder)
        check_refusals(folder)
        h.finish(f"{len(templates)} templates, {len(sites)} sites")


if __name__ == "__main__":
    main()
