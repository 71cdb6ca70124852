/* test_owner.c — laws of the owner file: which start may take a directory from which other one. */
#include "tests/mpi/io/ckpt_rig.h"

#include <stdlib.h>

/* No process has a number above the limit of the kernel, 2^22. */
enum { NO_PROCESS = (1 << 22) + 1, OWNER_TEXT = 1024 };

#define RUN "run tutti-checkpoint-2.0 0000000000001111 0000000000002222 fp32 of the test\n"

/* An owner file that a start of run_id() has left: process PROCESS on HOST, then `lines`. */
typedef struct owner_case {
  const char *incarnation;
  long process;     /* 0 = the parent of rank 0, which runs */
  const char *host; /* NULL = this one */
  const char *lines;
  int runs; /* counts as running */
} owner_case;

static const owner_case owners[] = {{"0.0.a.1", 0, NULL, RUN, 1},
                                    {"0.0.a.2", 0, NULL, RUN "ended\n", 0},
                                    {"0.0.a.3", NO_PROCESS, NULL, RUN, 0},
                                    {"0.0.a.4", -1, NULL, RUN, 1},
                                    {"0.0.a.5", NO_PROCESS, "elsewhere", RUN, 1},
                                    {"0.0.a.6", NO_PROCESS, "elsewhere", RUN "ended\n", 0},
                                    {"77.0.a.7", NO_PROCESS, "elsewhere", RUN, 0}, /* requeued */
                                    {"77.1.a.8", NO_PROCESS, "elsewhere", RUN, 1},
                                    {"7.0.a.9", NO_PROCESS, "elsewhere", RUN, 1}};

/* A start that wants the directory: a change of run_id(), and whether that is the same run. */
typedef struct start_case {
  int seed, data;
  const char *arithmetic;
  int any_device, restart, same;
} start_case;

static const start_case starts[] = {{0, 0, "fp32 of the test", 0, 0, 1},
                                    {1, 0, "fp32 of the test", 0, 0, 0},
                                    {0, 1, "fp32 of the test", 0, 0, 0},
                                    {0, 1, "fp32 of the test", 1, 0, 0},
                                    {0, 0, "tf32", 0, 0, 0},
                                    {0, 0, "tf32", 1, 0, 1},
                                    {0, 0, "fp32 of the test", 0, 1, 0}};

static void owner_path(const char *directory, char path[2 * SCRATCH_ROOM])
{
  snprintf(path, 2 * SCRATCH_ROOM, "%s/owner", directory);
}

static void write_owner(const char *directory, const owner_case *o)
{
  char path[2 * SCRATCH_ROOM], host[TT_HOST_ROOM], text[OWNER_TEXT];
  owner_path(directory, path);
  tt_file_host_name_local(host);
  snprintf(text, sizeof text, "%s\nprocess %ld on %s\n%s", o->incarnation,
           o->process ? o->process : (long)getppid(), o->host ? o->host : host, o->lines);
  TT_CHECK_OK(tt_directory_create(directory));
  TT_CHECK_OK(tt_file_write_atomic_local(path, text));
}

static void read_owner(const char *directory, char text[OWNER_TEXT])
{
  char path[2 * SCRATCH_ROOM];
  owner_path(directory, path);
  TT_CHECK_OK(tt_file_read_text(path, text, OWNER_TEXT));
}

static void claim(const char *directory, const owner_case *o, const start_case *s)
{
  char text[OWNER_TEXT];
  tt_run_id id = run_id();
  id.result_hash += (uint64_t)s->seed;
  id.data += (uint64_t)s->data;
  snprintf(id.arithmetic, sizeof id.arithmetic, "%s", s->arithmetic);
  if (tt_comm_is_root(comm)) write_owner(directory, o);
  tt_barrier(comm);
  tt_err e = tt_ckpt_claim(comm, directory, s->any_device, s->restart, &id);
  TT_CHECK((int)e, ==, o->runs && !s->same ? TT_E_DATA : TT_OK);
  if (e) TT_CHECK_HAS(tt_err_last(), o->incarnation);
  tt_ckpt_release_local(comm, directory);
  tt_barrier(comm);
  read_owner(directory, text);
  const char *first = e ? o->incarnation : id.incarnation;
  TT_CHECK(strncmp(text, first, strlen(first)), ==, 0);
  if (!e) TT_CHECK_HAS(text, "\nended\n");
  TT_CHECK(scratch_count(directory, ""), ==, 1);
  tt_barrier(comm);
}

/* Only a start of the same run takes the directory from a start that may be running; a start that
 * is refused changes no file. */
TT_TEST (a_running_start_loses_only_to_its_own_run) {
  char directory[SCRATCH_ROOM];
  directory_of("owners", directory);
  setenv("SLURM_JOB_ID", "77", 1);
  setenv("SLURM_RESTART_COUNT", "1", 1);
  for (size_t i = 0; i < sizeof owners / sizeof *owners; i++)
    for (size_t k = 0; k < sizeof starts / sizeof *starts; k++)
      claim(directory, &owners[i], &starts[k]);
  unsetenv("SLURM_JOB_ID");
  unsetenv("SLURM_RESTART_COUNT");
}

/* A directory below an owned one belongs to the start too, whoever has left an owner file there. */
TT_TEST (the_owner_of_a_directory_owns_those_below) {
  char directory[SCRATCH_ROOM], below[SCRATCH_ROOM + 8];
  directory_of("above", directory);
  start(directory, 0, 0);
  snprintf(below, sizeof below, "%s/below", directory);
  claim(below, &(owner_case){"0.0.a.1", 0, NULL, RUN, 0}, &starts[1]);
}

/* A later owner file is never marked as ended by the start that has lost the directory. */
TT_TEST (the_end_is_recorded_in_the_own_file_only) {
  char directory[SCRATCH_ROOM], text[OWNER_TEXT];
  directory_of("lost", directory);
  start(directory, 0, 0);
  take_over(directory);
  tt_ckpt_release_local(comm, directory);
  tt_barrier(comm);
  read_owner(directory, text);
  TT_CHECK(strcmp(text, "1.2.host.later\n"), ==, 0);
}

/* All ranks get the error of the one that is on another disk, and nothing is claimed. */
TT_TEST (a_directory_that_ranks_do_not_share_is_refused) {
  char directory[SCRATCH_ROOM], own[SCRATCH_ROOM + 16];
  tt_run_id id = run_id();
  if (tt_comm_ranks(comm) == 1) return;
  directory_of("unshared", directory);
  snprintf(own, sizeof own, "%s.%d", directory, tt_comm_rank(comm) == 1);
  TT_CHECK((int)tt_ckpt_claim(comm, own, 0, 0, &id), ==, TT_E_CANTCREAT);
  TT_CHECK_HAS(tt_err_last(), "rank 1 on ");
  TT_CHECK_HAS(tt_err_last(), "file system that all nodes share");
  tt_barrier(comm);
  TT_CHECK(scratch_count(own, ""), ==, 0);
}

TT_SUITE(NULL, release)
