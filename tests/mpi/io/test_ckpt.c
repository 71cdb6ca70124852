/* test_ckpt.c — laws of checkpoints: no generation is lost, no damaged file is loaded, all ranks
 * get the same result. */
#include "tests/mpi/io/ckpt_rig.h"

#include "core/base/mem.h"

#include <hdf5.h>
#include <hdf5_hl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

/* Written by R ranks, read with any other partition of the members: every member has its bytes. */
TT_TEST (any_partition_of_members_reads_what_another_wrote) {
  static const int64_t sizes[] = {1, 2, 3, 7, 12};
  char directory[SCRATCH_ROOM];
  directory_of("deals", directory);
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    int64_t members = sizes[k], ranks = tt_comm_ranks(comm), rank = tt_comm_rank(comm), g = 0;
    int64_t generation = (int64_t)k + 1, cut_at = members * (rank + 1) / (ranks + 1);
    tt_run_id id = start(directory, 0, 0);
    in_background = k % 2 == 1;
    tt_err written = write_with(comm, directory, &id, generation, members, 2);
    in_background = 0;
    TT_CHECK_OK(written);
    const tt_slice deals[] = {
        {0, members}, /* every rank reads all members: any other partition is a part of that */
        {cut_at, members - cut_at},
        {0, rank == ranks - 1 ? members : 0}};
    for (size_t d = 0; d < sizeof deals / sizeof *deals; d++) {
      tt_ckpt_shard part[2];
      my_parts(members, part);
      tt_state_destroy(&part[0].mine);
      part[0].mine = state_of(deals[d].first, deals[d].count, SLOTS);
      int64_t newest = 0;
      TT_CHECK_OK(tt_ckpt_read(comm, directory, &id, 0, 2, part, &newest, &g));
      TT_CHECK(g, ==, generation);
      TT_CHECK(holds(part[0].mine, generation) && holds(part[1].mine, generation), ==, 1);
      free_parts(part);
    }
  }
}

TT_TEST (an_optimizer_without_slots_is_kept) {
  char directory[SCRATCH_ROOM];
  int64_t g = 0, newest = 0;
  directory_of("noslots", directory);
  tt_run_id id = start(directory, 0, 0);
  tt_state *s = state_of(tt_comm_rank(comm), 1, 0), *back = state_of(tt_comm_rank(comm), 1, 0);
  fill(s, 3);
  const int64_t ranks = tt_comm_ranks(comm);
  TT_CHECK_OK(tt_ckpt_write(comm, directory, &id, 3, 1, 1, &(tt_ckpt_shard){ranks, s}));
  const tt_ckpt_shard read = {ranks, back};
  TT_CHECK_OK(tt_ckpt_read(comm, directory, &id, 0, 1, &read, &newest, &g));
  TT_CHECK(holds(back, 3), ==, 1);
  tt_state_destroy(&s);
  tt_state_destroy(&back);
}

/* The newest `keep` generations exist, also when numbers are skipped, and each has its own content.
 */
TT_TEST (the_newest_generations_are_kept) {
  static const int64_t numbers[] = {1, 2, 3, 5, 9, 10};
  char directory[SCRATCH_ROOM], path[2 * SCRATCH_ROOM];
  directory_of("keep", directory);
  tt_run_id id = start(directory, 0, 0);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    TT_CHECK_OK(write_with(comm, directory, &id, numbers[i], 5, 2));
    TT_CHECK(exists(directory, numbers[i]), ==, 1);
    if (i > 0) TT_CHECK(exists(directory, numbers[i - 1]), ==, 1);
    if (i > 1) TT_CHECK(exists(directory, numbers[i - 2]), ==, 0);
  }
  int64_t g = 0;
  TT_CHECK_OK(read_with(comm, directory, &id, 0, 5, &g));
  TT_CHECK(g, ==, 10);
  file_of(directory, 10, path);
  tt_barrier(comm);
  if (tt_comm_is_root(comm)) TT_CHECK(unlink(path), ==, 0);
  TT_CHECK_OK(read_with(comm, directory, &id, 0, 5, &g));
  TT_CHECK(g, ==, 9);
  TT_CHECK_OK(write_with(comm, directory, &id, 10, 5, 1));
  TT_CHECK(exists(directory, 9), ==, 0);
}

TT_TEST (no_directory_and_an_empty_one_are_fresh_starts) {
  char directory[SCRATCH_ROOM];
  tt_run_id id = run_id();
  int64_t g = 77;
  directory_of("fresh/deep", directory);
  TT_CHECK_OK(read_with(comm, directory, &id, 0, 4, &g));
  TT_CHECK(g, ==, 0);
  TT_CHECK_OK(tt_ckpt_claim(comm, directory, 0, 0, &id));
  g = 77;
  TT_CHECK_OK(read_with(comm, directory, &id, 0, 4, &g));
  TT_CHECK(g, ==, 0);
}

/* A wrong byte anywhere: the file is rejected, or the byte is unused. Wrong values are never
 * loaded. */
TT_TEST (a_wrong_byte_is_never_loaded) {
  char directory[SCRATCH_ROOM], path[2 * SCRATCH_ROOM], said[TT_ERR_MESSAGE_SIZE];
  hearing h;
  directory_of("flip", directory);
  tt_run_id id = start(directory, 2, 6);
  file_of(directory, 2, path);
  int64_t size = size_of(path), rejected = 0, tried = 0;
  for (int64_t offset = 3; offset < size; offset += size / 97, tried++) {
    int64_t g = 0;
    flip(path, offset);
    hear_begin(comm, scratch, &h);
    tt_err e = read_with(comm, directory, &id, 0, 6, &g);
    hear_end(&h, said);
    flip(path, offset);
    TT_CHECK_OK(e);
    TT_CHECK(g == 1 || g == 2, ==, 1);
    if (g == 1 && tt_comm_is_root(comm)) TT_CHECK_HAS(said, "ckpt-g000002.h5");
    rejected += g == 1;
  }
  TT_CHECK(rejected, >=, tried / 2); /* at least half of the file are values */
}

TT_TEST (a_cut_file_is_rejected) {
  char directory[SCRATCH_ROOM], path[2 * SCRATCH_ROOM], said[TT_ERR_MESSAGE_SIZE];
  hearing h;
  directory_of("cut", directory);
  tt_run_id id = start(directory, 2, 6);
  file_of(directory, 2, path);
  int64_t size = size_of(path);
  for (int64_t part = 9; part >= 0; part--) {
    int64_t g = 0;
    cut(path, size * part / 10);
    hear_begin(comm, scratch, &h);
    tt_err e = read_with(comm, directory, &id, 0, 6, &g);
    hear_end(&h, said);
    TT_CHECK_OK(e);
    TT_CHECK(g, ==, 1);
    if (tt_comm_is_root(comm)) TT_CHECK_HAS(said, part ? "truncated" : "empty");
  }
  TT_CHECK_OK(write_with(comm, directory, &id, 2, 6, 2));
  int64_t g = 0;
  TT_CHECK_OK(read_with(comm, directory, &id, 0, 6, &g));
  TT_CHECK(g, ==, 2);
}

/* Damaged files only: an error that names them all, never a training from epoch 0. */
TT_TEST (no_good_checkpoint_is_not_a_fresh_start) {
  char directory[SCRATCH_ROOM], path[2 * SCRATCH_ROOM], said[TT_ERR_MESSAGE_SIZE];
  int64_t g = 0;
  hearing h;
  directory_of("bad", directory);
  tt_run_id id = start(directory, 2, 6);
  for (int i = 1; i <= 2; i++) {
    file_of(directory, i, path);
    cut(path, i == 1 ? 0 : 700);
  }
  hear_begin(comm, scratch, &h);
  tt_err e = read_with(comm, directory, &id, 0, 6, &g);
  hear_end(&h, said);
  TT_CHECK((int)e, ==, TT_E_DATA);
  TT_CHECK(g, ==, 0);
  TT_CHECK_HAS(tt_err_last(), "ckpt-g000001.h5");
  TT_CHECK_HAS(tt_err_last(), "ckpt-g000002.h5");
  TT_CHECK_HAS(tt_err_last(), "--resume never");
}

/* A valid file under the name of another generation is rejected. */
TT_TEST (a_renamed_generation_is_rejected) {
  char directory[SCRATCH_ROOM], from[2 * SCRATCH_ROOM], to[2 * SCRATCH_ROOM],
      said[TT_ERR_MESSAGE_SIZE];
  int64_t g = 0;
  hearing h;
  directory_of("renamed", directory);
  tt_run_id id = start(directory, 2, 3);
  file_of(directory, 1, from);
  file_of(directory, 7, to);
  if (tt_comm_is_root(comm)) TT_CHECK(rename(from, to), ==, 0);
  tt_barrier(comm);
  hear_begin(comm, scratch, &h);
  tt_err e = read_with(comm, directory, &id, 0, 3, &g);
  hear_end(&h, said);
  TT_CHECK_OK(e);
  TT_CHECK(g, ==, 2);
  if (tt_comm_is_root(comm)) TT_CHECK_HAS(said, "generation 1");
}

/* A directory that is removed during the run is not told as a take-over. */
TT_TEST (a_vanished_directory_is_named) {
  char directory[SCRATCH_ROOM], owner[2 * SCRATCH_ROOM];
  directory_of("vanished", directory);
  snprintf(owner, sizeof owner, "%s/owner", directory);
  tt_run_id id = start(directory, 1, 5);
  if (tt_comm_is_root(comm)) TT_CHECK(unlink(owner), ==, 0);
  TT_CHECK((int)write_with(comm, directory, &id, 2, 5, 1), ==, TT_E_IO);
  TT_CHECK_HAS(tt_err_last(), "owner has vanished");
  tt_barrier(comm);
  if (tt_comm_is_root(comm)) tt_directory_remove(directory);
  if (tt_comm_is_root(comm)) TT_CHECK((int)tt_owner_check_local(directory), ==, TT_E_IO);
  if (tt_comm_is_root(comm)) TT_CHECK_HAS(tt_err_last(), "vanished has vanished");
}

TT_TEST (an_owner_that_is_a_fifo_is_not_waited_for) {
  char directory[SCRATCH_ROOM], owner[2 * SCRATCH_ROOM];
  directory_of("fifo", directory);
  snprintf(owner, sizeof owner, "%s/owner", directory);
  tt_run_id id = start(directory, 1, 5);
  if (tt_comm_is_root(comm)) TT_CHECK(unlink(owner) || mkfifo(owner, 0600), ==, 0);
  tt_barrier(comm);
  alarm(20); /* waiting for a writer fails here */
  TT_CHECK((int)write_with(comm, directory, &id, 2, 5, 1), ==, TT_E_IO);
  alarm(0);
  TT_CHECK_HAS(tt_err_last(), "owner is a FIFO");
}

/* The earlier of two starts fails at its next commit and changes no file; the later one continues.
 */
TT_TEST (the_fence_stops_the_earlier_start) {
  char directory[SCRATCH_ROOM];
  int64_t g = 0;
  directory_of("fence", directory);
  tt_run_id old = start(directory, 2, 5), new = run_id();
  take_over(directory);
  TT_CHECK((int)write_with(comm, directory, &old, 3, 5, 1), ==, TT_E_STOPPED);
  TT_CHECK_HAS(tt_err_last(), "another start of this run (1.2.host.later)");
  TT_CHECK((int)tt_ckpt_explain(comm, directory, TT_FAIL(MEM, "none left")), ==, TT_E_STOPPED);
  TT_CHECK((int)tt_ckpt_remove_all(comm, directory), ==, TT_E_STOPPED);
  TT_CHECK(exists(directory, 3), ==, 0);
  TT_CHECK(exists(directory, 1), ==, 1); /* the failed start has removed no file either */
  TT_CHECK(scratch_count(directory, ".tmp-"), ==, 0);
  tt_barrier(comm); /* the next start makes files */
  TT_CHECK_OK(tt_ckpt_claim(comm, directory, 0, 0, &new));
  TT_CHECK(strcmp(old.incarnation, new.incarnation) != 0, ==, 1);
  TT_CHECK((int)tt_ckpt_explain(comm, directory, TT_FAIL(MEM, "none left")), ==, TT_E_MEM);
  TT_CHECK_HAS(tt_err_last(), "none left");
  TT_CHECK_OK(read_with(comm, directory, &new, 0, 5, &g));
  TT_CHECK(g, ==, 2);
  TT_CHECK_OK(write_with(comm, directory, &new, 3, 5, 2));
  TT_CHECK_OK(read_with(comm, directory, &new, 0, 5, &g));
  TT_CHECK(g, ==, 3);
}

/* Checkpoints of another configuration, data set, size or arithmetic: an error that says which. */
TT_TEST (checkpoints_of_another_run_are_refused) {
  char directory[SCRATCH_ROOM];
  int64_t g = 0;
  directory_of("other", directory);
  tt_run_id id = start(directory, 2, 5), other = id;
  other.result_hash++;
  TT_CHECK((int)read_with(comm, directory, &other, 1, 5, &g), ==, TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "configuration");
  TT_CHECK_HAS(tt_err_last(), "--resume never");
  other = id;
  other.data++;
  TT_CHECK((int)read_with(comm, directory, &other, 1, 5, &g), ==, TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "other data");
  TT_CHECK((int)read_with(comm, directory, &id, 1, 6, &g), ==, TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "5 members");
  other = id;
  snprintf(other.arithmetic, sizeof other.arithmetic, "fp64");
  TT_CHECK((int)read_with(comm, directory, &other, 0, 5, &g), ==, TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "--allow-different-device");
  TT_CHECK(g, ==, 0);
  TT_CHECK_OK(read_with(comm, directory, &other, 1, 5, &g));
  TT_CHECK(g, ==, 2);
}

/* A start removes temporary files of ended processes; it keeps those of running processes and other
 * files. */
TT_TEST (files_of_ended_processes_are_removed) {
  char directory[SCRATCH_ROOM], host[256] = "", dead[400], alive[400];
  directory_of("left", directory);
  tt_run_id id = start(directory, 1, 3);
  gethostname(host, sizeof host - 1);
  /* no process has a number above the kernel's limit of 2^22 */
  snprintf(dead, sizeof dead, ".tmp-model.h5-%.40s-%d-0123456789abcdef", host, (1 << 22) + 1);
  snprintf(alive, sizeof alive, ".tmp-pred.h5-%.40s-%ld-0123456789abcdef", host, (long)getpid());
  tt_bcast(comm, alive, sizeof alive); /* the same name on all ranks */
  if (tt_comm_is_root(comm)) {
    TT_CHECK(touch(directory, dead), ==, 0);
    TT_CHECK(touch(directory, alive), ==, 0);
    TT_CHECK(touch(directory, ".tmp-notes"), ==, 0);
    TT_CHECK(touch(directory, ".tmp-owned-ckpt-g000002.h5-elsewhere-7-0123456789abcdef"), ==, 0);
  }
  TT_CHECK_OK(tt_ckpt_claim(comm, directory, 0, 0, &id));
  TT_CHECK(scratch_count(directory, dead), ==, 0);
  TT_CHECK(scratch_count(directory, TT_OWNER_TEMPORARY), ==, 0);
  TT_CHECK(scratch_count(directory, alive), ==, 1);
  TT_CHECK(scratch_count(directory, ".tmp-notes"), ==, 1);
  TT_CHECK(exists(directory, 1), ==, 1);
  TT_CHECK_OK(tt_ckpt_remove_all(comm, directory));
  TT_CHECK(scratch_count(directory, "ckpt-"), ==, 0);
  TT_CHECK(scratch_count(directory, "owner"), ==, 1);
  TT_CHECK(scratch_count(directory, ".tmp-notes"), ==, 1);
}

/* Every seventh vote of writing and reading fails on each rank, which covers every kind of vote:
 * all ranks get the same error, no temporary file is left, and the existing files are valid. */
TT_TEST (a_fault_at_any_vote_loses_nothing) {
  char directory[SCRATCH_ROOM], said[TT_ERR_MESSAGE_SIZE];
  hearing h;
  directory_of("votes", directory);
  tt_run_id id = start(directory, 2, 4);
  for (int bad = 0; bad < tt_comm_ranks(comm); bad++) {
    tt_err e = TT_E_IO;
    int64_t n = -6;
    while (e != TT_OK) {
      int64_t g = 0;
      tt_comm *c = comm_with_fault(bad, n += 7);
      hear_begin(comm, scratch, &h);
      e = write_with(c, directory, &id, 3, 4, 2);
      tt_err later = read_with(c, directory, &id, 0, 4, &g);
      hear_end(&h, said);
      tt_comm_end(&c);
      TT_CHECK((int)tt_agree(comm, e), ==, (int)e);
      TT_CHECK(scratch_count(directory, ".tmp-"), ==, 0);
      tt_barrier(comm);
      if (!later) TT_CHECK(g == 2 || g == 3, ==, 1);
    }
    TT_CHECK(n, >, 40); /* the faults did reach the votes of writing */
    tt_barrier(comm);
  }
}

TT_TEST (a_fault_at_any_vote_in_the_background_loses_nothing) {
  in_background = 1;
  a_fault_at_any_vote_loses_nothing(NULL);
  in_background = 0;
}

/* Until the end of a generation that is written in the background, the one before is the newest. */
TT_TEST (a_generation_written_in_the_background_is_new_at_its_end) {
  char directory[SCRATCH_ROOM];
  int64_t g = 0;
  tt_ckpt_writing *w = NULL;
  tt_ckpt_shard part[2];
  directory_of("background", directory);
  tt_run_id id = start(directory, 1, 9);
  my_parts(9, part);
  fill(part[0].mine, 2);
  fill(part[1].mine, 2);
  TT_CHECK_OK(tt_ckpt_begin(comm, directory, &id, 2, 2, part, &w));
  while (!tt_ckpt_is_written_local(w)) poll(NULL, 0, 1); /* as training asks between two chunks */
  TT_CHECK(exists(directory, 2), ==, 0);
  TT_CHECK_OK(read_with(comm, directory, &id, 0, 9, &g));
  TT_CHECK(g, ==, 1);
  TT_CHECK_OK(tt_ckpt_end(&w, 1));
  TT_CHECK(w == NULL, ==, 1);
  TT_CHECK_OK(read_with(comm, directory, &id, 0, 9, &g));
  TT_CHECK(g, ==, 2);
  TT_CHECK(exists(directory, 1), ==, 0);
  free_parts(part);
}

/* The directory is taken over while a generation is written: it is not published. */
TT_TEST (the_fence_stops_a_generation_written_in_the_background) {
  char directory[SCRATCH_ROOM];
  tt_ckpt_writing *w = NULL;
  tt_ckpt_shard part[2];
  directory_of("late", directory);
  tt_run_id id = start(directory, 1, 5);
  my_parts(5, part);
  TT_CHECK_OK(tt_ckpt_begin(comm, directory, &id, 2, 2, part, &w));
  take_over(directory);
  TT_CHECK((int)tt_ckpt_end(&w, 2), ==, TT_E_STOPPED);
  TT_CHECK(exists(directory, 2), ==, 0);
  TT_CHECK(scratch_count(directory, ".tmp-"), ==, 0);
  free_parts(part);
}

/* A disk that cannot hold the next generation: an error on all ranks before anything is written. */
TT_TEST (a_full_disk_keeps_the_old_generation) {
  char directory[SCRATCH_ROOM];
  int64_t g = 0;
  struct rlimit before, tight;
  directory_of("full", directory);
  tt_run_id id = start(directory, 1, 3);
  signal(SIGXFSZ, SIG_IGN);
  getrlimit(RLIMIT_FSIZE, &before);
  tight = before;
  tight.rlim_cur = 4096; /* in place of a full disk, the kernel rejects larger files */
  setrlimit(RLIMIT_FSIZE, &tight);
  tt_err e = write_with(comm, directory, &id, 2, 3, 2);
  setrlimit(RLIMIT_FSIZE, &before);
  TT_CHECK((int)e, ==, TT_E_IO);
  TT_CHECK_HAS(tt_err_last(), "disk full");
  TT_CHECK(scratch_count(directory, ".tmp-"), ==, 0);
  tt_barrier(comm);
  TT_CHECK_OK(read_with(comm, directory, &id, 0, 3, &g));
  TT_CHECK(g, ==, 1);
}

static void set_size(const char *path, const char *name, int64_t size)
{
  int64_t all[2];
  hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  hid_t d = H5Dopen2(file, name, H5P_DEFAULT);
  TT_CHECK(H5Dread(d, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, all) >= 0, ==, 1);
  all[0] = size;
  TT_CHECK(H5Dwrite(d, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, all) >= 0, ==, 1);
  H5Dclose(d);
  H5Fclose(file);
}

static void set_cohorts(const char *path, long long cohorts)
{
  hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  TT_CHECK(H5LTset_attribute_long_long(file, "/", "cohorts", &cohorts, 1) >= 0, ==, 1);
  H5Fclose(file);
}

TT_TEST (a_checkpoint_with_other_shapes_is_refused) {
  static const char *const dataset[] = {"epoch", "status", "member_hash"};
  char directory[SCRATCH_ROOM], path[2 * SCRATCH_ROOM];
  for (int i = 0; i < 6; i++) {
    int64_t g = 0;
    directory_of("shapes", directory);
    tt_run_id id = start(directory, 1, 3);
    file_of(directory, 1, path);
    tt_barrier(comm);
    if (tt_comm_is_root(comm)) {
      if (i < 3) replace(path, dataset[i], H5T_NATIVE_INT32, 2, 3);
      if (i == 3) set_size(path, "cohort_slots", INT64_MAX / 2);
      if (i == 4) set_size(path, "cohort_epochs", -1);
      if (i == 5) set_size(path, "cohort_params", PARAMS + 1);
    }
    tt_barrier(comm);
    TT_CHECK((int)read_with(comm, directory, &id, 0, 3, &g), ==, TT_E_DATA);
  }
}

/* No memory is allocated for a size that the rest of the file contradicts: an older one is used. */
TT_TEST (an_impossible_size_rejects_a_generation) {
  static const char *const dataset[] = {"cohort_members", "cohort_epochs", "weights", NULL};
  char directory[SCRATCH_ROOM], path[2 * SCRATCH_ROOM], said[TT_ERR_MESSAGE_SIZE];
  hearing h;
  for (int i = 0; i < 4; i++) {
    int64_t g = 0, cohorts = INT64_C(1) << 31;
    directory_of("sizes", directory);
    tt_run_id id = start(directory, 2, 3);
    file_of(directory, 2, path);
    if (tt_comm_is_root(comm)) {
      if (dataset[i]) replace(path, dataset[i], H5T_NATIVE_INT64, 1, (hsize_t)cohorts);
      if (!dataset[i]) set_cohorts(path, cohorts);
    }
    tt_barrier(comm);
    hear_begin(comm, scratch, &h);
    tt_err e = read_with(comm, directory, &id, 0, 3, &g);
    hear_end(&h, said);
    TT_CHECK(e == TT_OK && g == 1, ==, 1);
    if (tt_comm_is_root(comm)) TT_CHECK_HAS(said, "rejected");
  }
}

TT_TEST (an_impossible_directory_is_rejected) {
  char directory[SCRATCH_ROOM];
  tt_run_id id = run_id();
  directory_of("file", directory);
  if (tt_comm_is_root(comm)) TT_CHECK(touch(scratch, "file"), ==, 0);
  TT_CHECK((int)tt_ckpt_claim(comm, directory, 0, 0, &id), ==, TT_E_CANTCREAT);
  TT_CHECK_HAS(tt_err_last(), directory);
  directory_of("file/below", directory);
  TT_CHECK((int)tt_ckpt_claim(comm, directory, 0, 0, &id), ==, TT_E_CANTCREAT);
}

TT_SUITE(NULL, release)
