/* test_devices.c — laws of the choice of GPUs and of the problems that `tutti doctor` reports. */
#include "tests/support/check.h"

#include "core/base/directory.h"
#include "src/host/diagnostics.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Expected: a GPU, or a part of the error message. */
typedef struct choice {
  int node_rank, node_ranks, peer, peers, devices;
  int map[4], entries, share;
  int device; /* -1: an error */
  const char *words;
} choice;

static const choice choices[] = {
    /* one GPU for each of four ranks: each rank sees all GPUs, or its own only */
    {0, 4, 0, 4, 4, {0}, 0, 0, 0, NULL},
    {3, 4, 3, 4, 4, {0}, 0, 0, 3, NULL},
    {3, 4, 0, 1, 1, {0}, 0, 0, 0, NULL},
    /* two pairs of ranks, each pair sees two GPUs */
    {2, 4, 0, 2, 2, {0}, 0, 0, 0, NULL},
    {3, 4, 1, 2, 2, {0}, 0, 0, 1, NULL},
    /* more GPUs than ranks */
    {1, 2, 1, 2, 8, {0}, 0, 0, 1, NULL},
    /* fewer: an error on every rank, also on those that could have one */
    {0, 3, 0, 3, 2, {0}, 0, 0, -1, "--ntasks-per-node=2"},
    {2, 3, 2, 3, 2, {0}, 0, 0, -1, "run.share_gpu"},
    {1, 2, 1, 2, 1, {0}, 0, 0, -1, "2 ranks of this node see the same 1 GPU:"},
    /* shared: ranks use the GPUs in turn */
    {0, 3, 0, 3, 2, {0}, 0, 1, 0, NULL},
    {1, 3, 1, 3, 2, {0}, 0, 1, 1, NULL},
    {2, 3, 2, 3, 2, {0}, 0, 1, 0, NULL},
    /* a map is indexed by the rank on the node */
    {0, 4, 0, 4, 4, {3, 2, 1, 0}, 4, 0, 3, NULL},
    {3, 4, 3, 4, 4, {3, 2, 1, 0}, 4, 0, 0, NULL},
    {3, 4, 1, 2, 2, {1, 0, 0, 1}, 4, 0, 1, NULL},
    /* more ranks than entries: an error, or from the first entry again */
    {1, 3, 1, 3, 4, {2, 3}, 2, 0, 3, NULL},
    {2, 3, 2, 3, 4, {2, 3}, 2, 0, -1, "names 2 GPUs for the 3 ranks"},
    {2, 3, 2, 3, 4, {2, 3}, 2, 1, 2, NULL},
    {3, 4, 3, 4, 4, {2, 3}, 2, 1, 3, NULL},
    /* entries that are no GPU of this rank */
    {1, 2, 1, 2, 2, {0, 2}, 2, 0, -1, "GPU 2 to rank 1"},
    {1, 2, 1, 2, 2, {0, 2}, 2, 1, -1, "CUDA_VISIBLE_DEVICES"},
    {1, 2, 0, 1, 1, {1, 0}, 2, 0, 0, NULL},
    {0, 2, 0, 1, 1, {1, 0}, 2, 0, -1, "from 0 to 0"},
};

TT_TEST (the_choice_of_a_gpu_is_this_table) {
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
    const choice *k = &choices[i];
    int64_t value[4];
    for (int n = 0; n < 4; n++) value[n] = k->map[n];
    tt_rank_binding binding = {k->node_rank, k->node_ranks, k->peer, k->peers, k->devices};
    tt_int_list map = {k->entries, value};
    int device = -1;
    tt_err e = tt_device_assign(&binding, &map, k->share, &device);
    if (e != (k->words ? TT_E_UNAVAILABLE : TT_OK) || device != k->device)
      fprintf(stderr, "row %zu\n", i);
    TT_CHECK((int)e, ==, k->words ? TT_E_UNAVAILABLE : TT_OK);
    TT_CHECK(device, ==, k->device);
    if (k->words) TT_CHECK_HAS(tt_err_last(), k->words);
  }
}

/* Without a map, ranks that do not share have different GPUs, and all of these exist. */
TT_TEST (ranks_that_do_not_share_have_different_gpus) {
  tt_int_list none = {0, NULL};
  for (int devices = 1; devices <= 6; devices++) {
    for (int peers = 1; peers <= devices; peers++) {
      int taken[6] = {0};
      for (int peer = 0; peer < peers; peer++) {
        tt_rank_binding binding = {peer, peers, peer, peers, devices};
        int device = -1;
        TT_CHECK_OK(tt_device_assign(&binding, &none, 0, &device));
        TT_CHECK(device, >=, 0);
        TT_CHECK(device, <, devices);
        TT_CHECK(taken[device]++, ==, 0);
      }
    }
  }
}

/* `ranks` ranks, two a node, each with a GPU and cores of its own. */
static void make_places(int ranks, tt_rank_resources *p)
{
  memset(p, 0, (size_t)ranks * sizeof *p);
  for (int r = 0; r < ranks; r++) {
    snprintf(p[r].host, sizeof p[r].host, "node%d", r / 2);
    snprintf(p[r].engine, sizeof p[r].engine, "cuda");
    snprintf(p[r].info.name, sizeof p[r].info.name, "NVIDIA X");
    snprintf(p[r].info.uuid, sizeof p[r].info.uuid, "GPU-%04d", r);
    p[r].node_rank = r % 2;
    p[r].node_ranks = 2;
    p[r].cores = p[r].threads = 8;
    p[r].ranks_on_cores = p[r].devices = 1;
  }
}

TT_TEST (two_ranks_on_one_gpu_are_named) {
  tt_rank_resources p[6];
  for (int a = 0; a < 6; a++) {
    for (int b = a + 1; b < 6; b++) {
      char words[96], text[512];
      make_places(6, p);
      TT_CHECK_OK(tt_device_find_shared(6, p));
      for (int r = 0; r < 6; r++)
        TT_CHECK(tt_device_is_taken(p, r, 0, 0, text, sizeof text), ==, 0);
      memcpy(p[b].info.uuid, p[a].info.uuid, sizeof p[a].info.uuid);
      TT_CHECK_OK(tt_device_find_shared(6, p));
      for (int r = 0; r < 6; r++) TT_CHECK(p[r].shared_with, ==, r == b ? a : -1);
      TT_CHECK(tt_device_is_taken(p, b, 1, 0, text, sizeof text), ==, 0);
      TT_CHECK(tt_device_is_taken(p, b, 1, 1, text, sizeof text), ==, 1);
      TT_CHECK_HAS(text, "NCCL refuses it");
      TT_CHECK(tt_device_is_taken(p, b, 0, 0, text, sizeof text), ==, 1);
      snprintf(words, sizeof words, "the same GPU as rank %d on node%d, GPU-%04d", a, a / 2, a);
      TT_CHECK_HAS(text, words);
      TT_CHECK_HAS(text, "--gpus-per-task=1");
      TT_CHECK_HAS(text, "run.gpu_map");
    }
  }
}

/* Devices without a UUID, such as the CPU, are never equal. */
TT_TEST (processors_may_be_shared) {
  tt_rank_resources p[4];
  make_places(4, p);
  for (int r = 0; r < 4; r++) p[r].info.uuid[0] = 0;
  TT_CHECK_OK(tt_device_find_shared(4, p));
  for (int r = 0; r < 4; r++) TT_CHECK(p[r].shared_with, ==, -1);
}

TT_TEST (different_engines_are_a_problem) {
  tt_rank_resources p[4];
  for (int odd = 0; odd < 4; odd++) {
    char words[64];
    make_places(4, p);
    TT_CHECK_OK(tt_device_check_engines(4, p));
    snprintf(p[odd].engine, sizeof p[odd].engine, "cpu");
    TT_CHECK((int)tt_device_check_engines(4, p), ==, TT_E_UNAVAILABLE);
    snprintf(words, sizeof words, "rank %d on node%d", odd, odd / 2);
    TT_CHECK_HAS(tt_err_last(), words);
    p[odd].engine[0] = 0; /* a rank with an error has no engine and is not compared */
    TT_CHECK_OK(tt_device_check_engines(4, p));
  }
}

/* problems */

static tt_diagnostics *examine(int ranks, tt_rank_resources *p, const tt_resource_request *request)
{
  tt_diagnostics *f = NULL;
  tt_inventory s = {.ranks = ranks, .rank_entry = p};
  TT_CHECK_OK(tt_diagnostics_create(64, &f));
  TT_CHECK_OK(tt_device_find_shared(ranks, p));
  tt_diagnostics_check_inventory(f, &s, request);
  return f;
}

TT_TEST (a_sound_machine_has_no_problems) {
  tt_rank_resources p[6];
  tt_resource_request request = {.threads = -1};
  make_places(6, p);
  tt_diagnostics *f = examine(6, p, &request);
  TT_CHECK(f->count, ==, 0);
  tt_diagnostics_destroy(&f);
}

/* Every problem is reported, whatever other problems exist. */
TT_TEST (one_problem_does_not_hide_another) {
  static const char *const words[] = {"no device here", "the same GPU as rank 0 on node0, GPU-0000",
                                      "sees no GPU", "3 ranks of node0", "8 threads on 1 core:"};
  for (unsigned faults = 0; faults < 32; faults++) {
    tt_rank_resources p[6];
    tt_resource_request request = {.threads = -1};
    make_places(6, p);
    if (faults & 1) {
      p[1].err = TT_E_UNAVAILABLE;
      p[1].engine[0] = p[1].info.uuid[0] = 0;
      snprintf(p[1].fault, sizeof p[1].fault, "no device here");
    }
    if (faults & 2) memcpy(p[2].info.uuid, p[0].info.uuid, sizeof p[0].info.uuid);
    p[3].no_gpu = (faults & 4) != 0;
    if (faults & 8) p[0].ranks_on_cores = 3;
    if (faults & 16) p[4].cores = 1;
    tt_diagnostics *f = examine(6, p, &request);
    int64_t wanted = 0;
    for (int i = 0; i < 5; i++) {
      int found = 0;
      for (int64_t k = 0; k < f->count; k++) found |= strstr(f->all[k].text, words[i]) != NULL;
      TT_CHECK(found, ==, (int)(faults >> i & 1));
      wanted += faults >> i & 1;
    }
    TT_CHECK(f->count, ==, wanted);
    tt_diagnostics_destroy(&f);
  }
}

/* Cores of a rank, ranks and cores of mpirun on its node, GPUs; words of the message or NULL. */
TT_TEST (cores_that_mpirun_withholds_are_named) {
  static const struct {
    int cores, ranks, launcher, gpus;
    const char *words;
  } row[] = {
      {1, 1, 16, 0, "to 1 of 16 cores: start it with mpirun --bind-to none"},
      {1, 4, 16, 0, "--bind-to none, or with more ranks"},
      {4, 4, 16, 0, NULL}, /* each rank has its part */
      {16, 4, 16, 0, NULL},
      {1, 1, 0, 0, NULL}, /* not started by mpirun */
      {1, 1, 16, 1, NULL},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tt_rank_resources p[1];
    char text[256] = "";
    tt_resource_request request = {.threads = -1};
    make_places(1, p);
    p->cores = p->threads = row[i].cores;
    p->node_ranks = row[i].ranks;
    p->launcher_cores = row[i].launcher;
    p->devices = row[i].gpus;
    TT_CHECK(tt_cores_unused(p, text, sizeof text), ==, row[i].words != NULL);
    if (row[i].words) TT_CHECK_HAS(text, row[i].words);
    tt_diagnostics *f = examine(1, p, &request);
    TT_CHECK(f->count, ==, row[i].words != NULL);
    tt_diagnostics_destroy(&f);
  }
}

TT_TEST (shared_gpus_are_no_problem_if_allowed) {
  tt_rank_resources p[2];
  tt_resource_request request = {.threads = -1, .share_gpu = 1};
  make_places(2, p);
  memcpy(p[1].info.uuid, p[0].info.uuid, sizeof p[0].info.uuid);
  tt_diagnostics *f = examine(2, p, &request);
  TT_CHECK(f->count, ==, 0);
  tt_diagnostics_destroy(&f);
}

TT_TEST (equal_problems_of_many_ranks_are_one_line) {
  tt_diagnostics *f = NULL;
  TT_CHECK_OK(tt_diagnostics_create(2, &f));
  for (int r = 0; r < 12; r++) tt_diagnostics_add(f, r, r == 5 ? "other" : "same");
  tt_diagnostics_add(f, 0, "no room for this");
  TT_CHECK(f->count, ==, 2);
  TT_CHECK(f->all[0].ranks, ==, 11);
  assert_string_equal(f->all[0].rank_list, "0, 1, 2, 3");
  TT_CHECK(f->all[1].ranks, ==, 1);
  assert_string_equal(f->all[1].rank_list, "5");
  tt_diagnostics_destroy(&f);
}

/* What a host has, CUDA_VISIBLE_DEVICES, and words of the reason. Each row keeps the files of the
 * rows before it. */
TT_TEST (every_reason_for_no_gpu_has_its_own_words) {
  static const struct {
    const char *directory, *link, *target, *visible, *words;
  } row[] = {
      {NULL, NULL, NULL, NULL, "this host has no NVIDIA driver"},
      {NULL, NULL, NULL, "", "CUDA_VISIBLE_DEVICES is empty, which hides every GPU: unset it"},
      {NULL, NULL, NULL, "-1", "CUDA_VISIBLE_DEVICES is -1"},
      {"/proc/driver/nvidia", NULL, NULL, NULL, "but no device node /dev/nvidia0"},
      /* a link to itself stands for a node that may not be opened */
      {"/dev", "/dev/nvidia0", "nvidia0", NULL, "can be opened (Too many levels"},
      {NULL, "/dev/nvidia1", "..", NULL, "although 2 device nodes exist"},
      {NULL, "/dev/nvidiactl", "..", "7", "is '7', which names none of the GPUs of this host (2)"},
      {NULL, NULL, NULL, "MIG-1", "there is no such MIG instance"},
  };
  const char *root = test_folder;
  char text[512], path[600];
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    snprintf(path, sizeof path, "%s%s", root, row[i].directory ? row[i].directory : "");
    TT_CHECK_OK(tt_directory_create(path));
    snprintf(path, sizeof path, "%s%s", root, row[i].link ? row[i].link : "");
    if (row[i].link) TT_CHECK(symlink(row[i].target, path), ==, 0);
    tt_gpu_explain_absence(root, row[i].visible, text, sizeof text);
    TT_CHECK_HAS(text, row[i].words);
  }
}

TT_SUITE(enter_folder, NULL)
