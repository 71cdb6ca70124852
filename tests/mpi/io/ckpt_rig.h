/* ckpt_rig.h — states with known bytes, and functions that damage files, for the tests of
 * checkpoints. */
#ifndef TT_CKPT_RIG_H
#define TT_CKPT_RIG_H
#include "tests/support/check.h"
#include "tests/support/ranks.h"

#include "io/checkpoint/checkpoint.h"
#include "io/files/files.h"
#include "io/files/owner.h"

#include <fcntl.h>
#include <hdf5.h>
#include <inttypes.h>

enum { PARAMS = 37, SLOTS = 2, EPOCHS = 5, OTHERS = 3 };

/* The directory of one test. */
static char present_directory[SCRATCH_ROOM];

/* Release the directory of the test before. */
static inline int release(void **unused)
{
  (void)unused;
  tt_ckpt_release_local(comm, present_directory);
  return 0;
}

static inline void directory_of(const char *test, char path[SCRATCH_ROOM])
{
  release(NULL);
  snprintf(path, SCRATCH_ROOM, "%.900s/%s", scratch, test);
  snprintf(present_directory, SCRATCH_ROOM, "%s", path);
}

static inline tt_run_id run_id(void)
{
  tt_run_id id = {0x1111, 0x2222, "fp32 of the test", ""};
  return id;
}

/* Bytes that depend on generation, member, field and place only. */
static inline void fill(tt_state *s, int64_t generation)
{
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field field = tt_state_get(s, f);
    int64_t bytes = field.bytes * field.length;
    for (int64_t i = 0; i < s->count * bytes; i++) {
      uint64_t x = (uint64_t)(generation * 1000003 + s->params * 31 +
                              (s->first + i / bytes) * 10007 + f * 101 + i % bytes + 1) *
                   0x9E3779B97F4A7C15ull;
      ((unsigned char *)field.data)[i] = (unsigned char)(x >> 56);
    }
  }
}

static inline tt_state *shaped(tt_slice which, tt_state_shape shape)
{
  tt_state *s = NULL;
  TT_CHECK_OK(tt_state_create(which, shape, &s));
  return s;
}

static inline tt_state *state_of(int64_t first, int64_t count, int64_t slots)
{
  return shaped((tt_slice){first, count},
                (tt_state_shape){.params = PARAMS, .slots = slots, .epochs = EPOCHS});
}

/* This rank's part of a job of two cohorts of different shapes, `members` and OTHERS. */
static inline void my_parts(int64_t members, tt_ckpt_shard part[2])
{
  tt_slice line;
  int64_t all = members + OTHERS;
  TT_CHECK_OK(tt_partition_even(all, tt_comm_ranks(comm), tt_comm_rank(comm), &line));
  const tt_slice other = tt_slice_intersect(line, members, OTHERS);
  const tt_slice slice = tt_slice_intersect(line, 0, members);
  part[0] = (tt_ckpt_shard){members, state_of(slice.first, slice.count, SLOTS)};
  part[1] = (tt_ckpt_shard){
      OTHERS,
      shaped(other, (tt_state_shape){
                        .params = PARAMS + 1, .slots = 3, .epochs = 2 * EPOCHS, .averages = 1})};
}

static inline void free_parts(tt_ckpt_shard part[2])
{
  tt_state_destroy(&part[0].mine);
  tt_state_destroy(&part[1].mine);
}

/* Does `s` hold exactly what was written as `generation`? */
static inline int holds(const tt_state *s, int64_t generation)
{
  int same = 1;
  tt_state *wanted = shaped((tt_slice){s->first, s->count},
                            (tt_state_shape){s->params, s->slots, s->epochs, s->averages});
  fill(wanted, generation);
  for (int64_t i = 0; i < s->count; i++) same &= tt_state_hash(s, i) == tt_state_hash(wanted, i);
  tt_state_destroy(&wanted);
  return same;
}

/* 1 = the tests write with tt_ckpt_begin and tt_ckpt_end. */
static int in_background;

static inline tt_err write_parts(tt_comm *c, const char *directory, const tt_run_id *id,
                                 int64_t generation, int64_t keep, const tt_ckpt_shard part[2])
{
  tt_ckpt_writing *w = NULL;
  if (!in_background) return tt_ckpt_write(c, directory, id, generation, keep, 2, part);
  tt_err e = tt_ckpt_begin(c, directory, id, generation, 2, part, &w);
  return e ? e : tt_ckpt_end(&w, keep);
}

static inline tt_err write_with(tt_comm *c, const char *directory, const tt_run_id *id,
                                int64_t generation, int64_t members, int64_t keep)
{
  tt_ckpt_shard part[2];
  my_parts(members, part);
  fill(part[0].mine, generation);
  fill(part[1].mine, generation);
  tt_err e = write_parts(c, directory, id, generation, keep, part);
  free_parts(part);
  return e;
}

/* Read; on success *generation says which, with a minus if it does not hold what was written. */
static inline tt_err read_with(tt_comm *c, const char *directory, const tt_run_id *id,
                               int any_device, int64_t members, int64_t *generation)
{
  tt_ckpt_shard part[2];
  my_parts(members, part);
  int64_t newest = *generation = 0;
  tt_err e = tt_ckpt_read(c, directory, id, any_device, 2, part, &newest, generation);
  for (int i = 0; i < 2; i++)
    if (!e && *generation > 0 && !holds(part[i].mine, *generation)) *generation = -*generation;
  free_parts(part);
  return e;
}

/* A claimed directory with generations 1 to `last`. */
static inline tt_run_id start(const char *directory, int64_t last, int64_t members)
{
  tt_run_id id = run_id();
  TT_CHECK_OK(tt_ckpt_claim(comm, directory, 0, 0, &id));
  for (int64_t g = 1; g <= last; g++) TT_CHECK_OK(write_with(comm, directory, &id, g, members, 2));
  return id;
}

/* Another start takes the directory over. */
static inline void take_over(const char *directory)
{
  char path[2 * SCRATCH_ROOM];
  snprintf(path, sizeof path, "%s/owner", directory);
  if (tt_comm_is_root(comm)) TT_CHECK_OK(tt_file_write_atomic_local(path, "1.2.host.later\n"));
}

static inline int exists(const char *directory, int64_t generation)
{
  char name[32];
  snprintf(name, sizeof name, "ckpt-g%06" PRId64 ".h5", generation);
  tt_barrier(comm); /* rank 0 removes old generations at the end */
  int there = scratch_count(directory, name);
  tt_barrier(comm); /* no rank changes the directory while another rank reads it */
  return there;
}

static inline void file_of(const char *directory, int64_t generation, char path[2 * SCRATCH_ROOM])
{
  snprintf(path, 2 * SCRATCH_ROOM, "%s/ckpt-g%06" PRId64 ".h5", directory, generation);
}

/* Collective. Bytes of a file. */
static inline int64_t size_of(const char *path)
{
  struct stat s = {0};
  stat(path, &s);
  tt_barrier(comm);
  return (int64_t)s.st_size;
}

/* Collective. Rank 0 inverts one byte; a second call restores it. */
static inline void flip(const char *path, int64_t offset)
{
  unsigned char byte = 0;
  tt_barrier(comm);
  int fd = tt_comm_is_root(comm) ? open(path, O_RDWR) : -1;
  if (fd >= 0 && pread(fd, &byte, 1, offset) == 1) {
    byte = (unsigned char)~byte;
    TT_CHECK((int)pwrite(fd, &byte, 1, offset), ==, 1);
  }
  if (fd >= 0) close(fd);
  tt_barrier(comm);
}

/* Collective. Rank 0 cuts the file. */
static inline void cut(const char *path, int64_t bytes)
{
  tt_barrier(comm);
  if (tt_comm_is_root(comm)) TT_CHECK(truncate(path, bytes), ==, 0);
  tt_barrier(comm);
}

/* On rank 0: replace a dataset by one of another shape, whose values the file does not have. */
static inline void replace(const char *path, const char *dataset, hid_t type, int axes,
                           hsize_t rows)
{
  const hsize_t dims[2] = {rows, 4096};
  hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  hid_t space = H5Screate_simple(axes, dims, NULL);
  TT_CHECK(H5Ldelete(file, dataset, H5P_DEFAULT) >= 0, ==, 1);
  hid_t wide = H5Dcreate2(file, dataset, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  TT_CHECK(wide >= 0, ==, 1);
  H5Dclose(wide);
  H5Sclose(space);
  H5Fclose(file);
}

#endif
