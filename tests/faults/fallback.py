#!/usr/bin/python3
"""A damaged newest checkpoint is reported and skipped; if all are damaged, it is an error. The
newest generation of a stopped run is damaged in several ways; the resumed run must name the
rejected file, continue from the generation before, and end with the bits of an undisturbed run.
With every generation damaged it must exit with 65 and train nothing. Control: a valid newest
generation must not be reported.
"""
import h5py

import harness as h

SETTINGS = ["train.epochs=20", "checkpoint.every=1h", "run.directory=out"]
BAD_DATA = 65


def flip_weight(path):
    """Flip one bit of a weight and keep the checksum."""
    with h5py.File(path, "r") as f:
        place = f["weights"].id.get_offset() + 5
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


def empty(path):
    path.write_bytes(b"")


def garble_head(path):
    data = bytearray(path.read_bytes())
    data[64:512] = bytes(len(data[64:512]))
    path.write_bytes(data)


def drop_dataset(path):
    with h5py.File(path, "r+") as f:
        del f["slots"]


def not_hdf5(path):
    path.write_text("not a checkpoint\n")


DAMAGES = (flip_weight, cut, empty, garble_head, drop_dataset, not_hdf5)


def newest_damaged(folder, base, wanted, damage, ranks):
    name = f"newest generation, {damage.__name__}, {ranks} ranks"
    out = h.copy_directory(base, folder / "out")
    bad = h.checkpoint(out, h.newest(out))
    damage(bad)
    done = h.train(folder, ranks, SETTINGS)
    if h.check(done.code == h.DONE, f"{name}: exit {done.code}\n{done.output}"):
        h.check(bad.name in done.output, f"{name}: {bad.name} is not named\n{done.output}")
        h.check_same(out, wanted, name)


def all_damaged(folder, base, damage):
    name = f"all generations, {damage.__name__}"
    out = h.copy_directory(base, folder / "out")
    for generation in h.generations(out):
        damage(h.checkpoint(out, generation))
    done = h.train(folder, 2, SETTINGS)
    h.check(done.code == BAD_DATA, f"{name}: exit {done.code}, not {BAD_DATA}\n{done.output}")
    h.check(len(h.error_lines(done.output)) == 1, f"{name}: not one error line\n{done.output}")
    h.check(not h.is_complete(out), f"{name}: it trained from epoch 0")


def none_damaged(folder, base, wanted):
    out = h.copy_directory(base, folder / "out")
    name = h.checkpoint(out, h.newest(out)).name
    done = h.train(folder, 2, SETTINGS)
    h.check(done.code == h.DONE, f"sound: exit {done.code}\n{done.output}")
    h.check(f"{name}" not in done.output, f"sound: {name} is reported\n{done.output}")
    h.check_same(out, wanted, "sound")


def main():
    with h.workplace() as folder:
        wanted, _ = h.undisturbed(folder, SETTINGS[:2])
        base = h.stopped(folder, SETTINGS[:2])
        none_damaged(folder, base, wanted)
        for i, damage in enumerate(DAMAGES):
            newest_damaged(folder, base, wanted, damage, 1 + i % 3)
        for damage in (flip_weight, cut):
            all_damaged(folder, base, damage)
        h.finish(f"{len(DAMAGES)} kinds of damage")


if __name__ == "__main__":
    main()
