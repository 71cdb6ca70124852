/* doctor.c — see doctor.h. */
#include "src/tools/doctor.h"

#include "core/base/json.h"
#include "core/base/mem.h"
#include "io/files/files.h"
#include "io/hdf5/h5.h"
#include "src/cpu/kernels/kernels.h"
#include "src/host/diagnostics.h"
#include "src/host/self_check.h"
#include "src/tools/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Problems that only the rank itself can detect; gathered on rank 0. */
enum { MAX_PROBLEMS = 8, PROBLEM_SIZE = 1024, MAX_SURVEY_FINDINGS_PER_RANK = 4 };
typedef struct problems {
  int count;
  char text[MAX_PROBLEMS][PROBLEM_SIZE];
} problems;

/* What was measured: on rank 0 the self-checks of all ranks. */
typedef struct measured {
  tt_self_check *check; /* [R] */
  tt_gpu_path_check paths;
} measured;

static void add_problem(problems *dst, const char *text)
{
  if (dst->count < MAX_PROBLEMS)
    snprintf(dst->text[dst->count++], PROBLEM_SIZE, "%.*s", PROBLEM_SIZE - 1, text);
}

static void check_settings(problems *dst)
{
  for (const tt_comm_env *s = tt_comm_env_defaults; s->name; s++) {
    char text[PROBLEM_SIZE];
    const char *now = getenv(s->name);
    if (!now || !strcmp(now, s->value)) continue;
    snprintf(text, sizeof text,
             "%s is '%s', but tutti sets '%s', because %s: unset it (or remove "
             "--mca %s from the mpirun command)",
             s->name, now, s->value, s->why, s->name + strlen("OMPI_MCA_"));
    add_problem(dst, text);
  }
}

/* Create a file in the nearest existing directory: permission bits alone are not conclusive. */
static tt_err check_writable(const char *directory)
{
  char existing[TT_PATH_MAX], above[TT_PATH_MAX], probe[TT_PATH_MAX], temporary[TT_PATH_MAX];
  struct stat s;
  snprintf(existing, sizeof existing, "%s", directory);
  while (stat(existing, &s) != 0 && errno == ENOENT && strcmp(existing, "/") != 0 &&
         strcmp(existing, ".") != 0) {
    tt_file_dirname_local(existing, above);
    memcpy(existing, above, sizeof existing);
  }
  if (snprintf(probe, sizeof probe, "%s/doctor", existing) >= (int)sizeof probe)
    return TT_FAIL(CANTCREAT, "%s: the path is too long", directory);
  TT_TRY(tt_file_temporary_name_local(probe, temporary));
  TT_TRY(tt_file_reserve_local(temporary, 0));
  unlink(temporary);
  return TT_OK;
}

static void check_rank_local(const tt_comm *c, const tt_job *job,
                             const tt_resource_request *request, problems *dst)
{
  const tt_kernels *kernels;
  char text[PROBLEM_SIZE];
  if (tt_comm_check_launch_local(c)) add_problem(dst, tt_err_last());
  check_settings(dst);
  if (tt_kernels_get(request->simd, &kernels)) add_problem(dst, tt_err_last());
  if (job && check_writable(job->cfg->run_directory)) {
    snprintf(text, sizeof text, "run.directory %s: %.600s", job->cfg->run_directory, tt_err_last());
    add_problem(dst, text);
  }
}

static void print_ranks(const tt_inventory *s)
{
  int host = 4, name = 4;
  for (int r = 0; r < s->ranks; r++) {
    int h = (int)strlen(s->rank_entry[r].host), n = (int)strlen(s->rank_entry[r].info.name);
    host = h > host ? h : host;
    name = n > name ? n : name;
  }
  printf("%5s  %-*s  %7s  %5s  %7s  %-6s  %3s  %-*s  %s\n", "rank", host, "host", "on node",
         "cores", "threads", "engine", "gpu", name, "name", "uuid");
  for (int r = 0; r < s->ranks; r++) {
    const tt_rank_resources *p = &s->rank_entry[r];
    char gpu[16] = "-";
    if (p->devices > 0 && !p->err) snprintf(gpu, sizeof gpu, "%d", p->device);
    printf("%5d  %-*s  %7d  %5d  %7d  %-6s  %3s  %-*s  %s\n", r, host, p->host, p->node_rank,
           p->cores, p->threads, *p->engine ? p->engine : "none", gpu, name,
           *p->info.name ? p->info.name : "-", *p->info.uuid ? p->info.uuid : "-");
  }
}

/* The version of NCCL that an engine finds. Returns 0 if it has no use for one. */
static int find_nccl(const tt_engine_ops *ops, char *text, int64_t capacity)
{
  if (!ops->team || !ops->team->link) return 0;
  if (ops->team->link->version(text, capacity))
    snprintf(text, (size_t)capacity, "no NCCL 2.14 or newer");
  return 1;
}

static void print_versions(const tt_resource_request *request)
{
  char text[512];
  int gpu = 0;
  const tt_kernels *kernels;
  tt_comm_versions_local(text, sizeof text);
  printf("\ntutti %s\n%s\n", TUTTI_VERSION, text);
  if (tt_comm_has_mpi_local())
    printf("GPU memory in messages: the MPI library %s\n",
           tt_comm_takes_gpu_memory_local() ? "takes it (run.exchange: auto)" : "does not take it");
  tt_h5_version_local(text, sizeof text);
  printf("%s, %s\n", text, tt_comm_has_mpi_local() ? "parallel" : "serial");
  for (int i = 0; tt_engines[i]; i++) {
    if (!tt_engines[i]->versions) continue;
    gpu = 1;
    tt_engines[i]->versions(text, sizeof text);
    printf("%s engine: %s\n", tt_engines[i]->name, text);
    if (find_nccl(tt_engines[i], text, sizeof text)) printf("%s (run.exchange: nccl)\n", text);
  }
  if (!gpu) printf("built without CUDA\n");
  if (!tt_kernels_get(request->simd, &kernels))
    printf("vector instructions: %s (TUTTI_SIMD: %s)\n", kernels->name,
           tt_choice_simd[request->simd]);
}

/* The CUDA path that the members of the job take on the GPU of rank 0; "" if there is none. */
static void find_path(const tt_inventory *s, const tt_job *job, tt_gpu_path_check paths,
                      tt_diagnostics *dst, char text[TT_DIAGNOSTIC_SIZE])
{
  const tt_rank_resources *p = &s->rank_entry[0];
  *text = '\0';
  if (!job || p->err || p->info.shared_bytes == 0) return;
  if (tt_plan_path_local(job->cfg, s->ranks, &p->info, paths, text, TT_DIAGNOSTIC_SIZE)) {
    tt_diagnostics_add(dst, -1, tt_err_last());
    *text = '\0';
  }
}

static void print_sharing(const tt_inventory *s)
{
  int r = 0;
  while (r < s->ranks && (s->rank_entry[r].shared_with < 0 || s->rank_entry[r].err)) r++;
  if (r < s->ranks)
    printf("note: ranks share GPUs: each GPU computes for one rank at a time, unless MPS runs "
           "(nvidia-cuda-mps-control -d)\n");
}

/* Collective. The self-checks of the GPUs; a way that fails is a problem of its rank. */
static tt_err check_gpus(tt_comm *c, const tt_inventory *s, tt_self_check_when when,
                         problems *problem, measured *out)
{
  tt_self_check mine;
  char text[PROBLEM_SIZE], way[32];
  TT_TRY(tt_agree(c, tt_comm_is_root(c) ? TT_ALLOC(out->check, s->ranks) : TT_OK));
  TT_TRY(tt_self_check_gpu(c, s->ops, &s->mine, when, &mine));
  tt_gatherv(c, &mine, sizeof mine, out->check, NULL);
  out->paths = tt_self_check_paths(c, &mine);
  for (int i = 0; i < TT_GPU_PATH_WAYS; i++) {
    int failed = mine.way[i].result == TT_SELF_CHECK_failed;
    if (!failed && mine.way[i].result != TT_SELF_CHECK_unknown) continue;
    snprintf(text, sizeof text, "GPU %s %s self-check of %s: %s", mine.uuid,
             failed ? "fails the" : "could not end the", tt_self_check_way(i, way),
             mine.way[i].text);
    add_problem(problem, text);
  }
  return TT_OK;
}

static void print_self_checks(const tt_inventory *s, const measured *all)
{
  char way[32];
  for (int r = 0; r < s->ranks; r++) {
    const tt_self_check *c = &all->check[r];
    int n = 0;
    if (!*c->uuid) continue;
    printf("self-check of %s: ", c->uuid);
    for (int i = 0; i < TT_GPU_PATH_WAYS; i++)
      if (c->way[i].result == TT_SELF_CHECK_passed)
        printf("%s%s", n++ ? ", " : "passed by ", tt_self_check_way(i, way));
    printf("%s\n", n                  ? ""
                   : c->seconds > 0.0 ? "passed by no path"
                                      : "not done; the first training does it, or --check");
  }
}

static void print_all(const tt_inventory *s, const tt_resource_request *request,
                      const measured *found, const char *path, const tt_diagnostics *f)
{
  print_ranks(s);
  print_versions(request);
  print_self_checks(s, found);
  if (*path) printf("CUDA path: %s\n", path);
  print_sharing(s);
  if (s->seen > s->used)
    printf("note: %" PRId64 " of %" PRId64 " GPUs have no rank and stay unused\n",
           s->seen - s->used, s->seen);
  printf("\n");
  tt_diagnostics_print(f);
}

static json_t *rank_to_json(const tt_rank_resources *p, int rank)
{
  json_t *row = json_object();
  tt_json_set(&row, "rank", json_integer(rank));
  tt_json_set(&row, "host", tt_json_text(p->host));
  tt_json_set(&row, "node_rank", json_integer(p->node_rank));
  tt_json_set(&row, "cores", json_integer(p->cores));
  tt_json_set(&row, "threads", json_integer(p->threads));
  tt_json_set(&row, "engine", tt_json_text(p->engine));
  tt_json_set(&row, "gpu", p->devices > 0 && !p->err ? json_integer(p->device) : json_null());
  tt_json_set(&row, "gpu_name", tt_json_text(p->info.name));
  tt_json_set(&row, "gpu_uuid", tt_json_text(p->info.uuid));
  return row;
}

static tt_err print_json(const tt_inventory *s, const measured *found, const char *path,
                         const tt_diagnostics *f)
{
  char text[512];
  json_t *all = json_object(), *ranks = json_array(), *versions = json_object();
  json_t *problem = json_array(), *checks = json_array();
  for (int r = 0; r < s->ranks; r++)
    json_array_append_new(ranks, rank_to_json(&s->rank_entry[r], r));
  for (int r = 0; r < s->ranks; r++)
    if (*found->check[r].uuid)
      json_array_append_new(checks, tt_self_check_to_json(&found->check[r]));
  tt_json_set(&versions, "tutti", tt_json_text(TUTTI_VERSION));
  tt_comm_versions_local(text, sizeof text);
  tt_json_set(&versions, "mpi", tt_json_text(text));
  tt_h5_version_local(text, sizeof text);
  tt_json_set(&versions, "hdf5", tt_json_text(text));
  for (int i = 0; tt_engines[i]; i++)
    if (find_nccl(tt_engines[i], text, sizeof text))
      tt_json_set(&versions, "nccl", tt_json_text(text));
  for (int64_t i = 0; i < f->count; i++) {
    json_t *row = json_object();
    tt_json_set(&row, "ranks", tt_json_text(f->all[i].rank_list));
    tt_json_set(&row, "text", tt_json_text(f->all[i].text));
    json_array_append_new(problem, row);
  }
  tt_json_set(&all, "ranks", ranks);
  tt_json_set(&all, "versions", versions);
  tt_json_set(&all, "gpus_seen", json_integer(s->seen));
  tt_json_set(&all, "gpus_used", json_integer(s->used));
  tt_json_set(&all, "mpi_takes_gpu_memory", json_boolean(tt_comm_takes_gpu_memory_local()));
  tt_json_set(&all, "cuda_path", *path ? tt_json_text(path) : json_null());
  tt_json_set(&all, "self_checks", checks);
  tt_json_set(&all, "problems", problem);
  return tt_json_print(all, 2);
}

/* On rank 0: print the problems of all ranks. all [R] */
static tt_err report_local(const tt_inventory *s, const measured *found, const tt_job *job,
                           const tt_resource_request *request, const char *job_error, int json,
                           const problems *all, int64_t *count)
{
  static char path[TT_DIAGNOSTIC_SIZE];
  tt_diagnostics *f = NULL;
  TT_TRY(tt_diagnostics_create(
      (MAX_PROBLEMS + MAX_SURVEY_FINDINGS_PER_RANK) * (int64_t)s->ranks + 3, &f));
  if (*job_error) tt_diagnostics_add(f, -1, job_error);
  for (int i = 0; i < MAX_PROBLEMS; i++)
    for (int r = 0; r < s->ranks; r++)
      if (i < all[r].count) tt_diagnostics_add(f, r, all[r].text[i]);
  find_path(s, job, found->paths, f, path);
  tt_diagnostics_check_inventory(f, s, request);
  tt_err e = TT_OK;
  if (json)
    e = print_json(s, found, path, f);
  else
    print_all(s, request, found, path, f);
  *count = f->count;
  tt_diagnostics_destroy(&f);
  return e;
}

static tt_err examine(tt_comm *c, const tt_job *job, const tt_resource_request *request,
                      const char *job_error, int json, int check, int64_t *count)
{
  tt_inventory *s = NULL;
  problems *mine = NULL, *all = NULL;
  measured found = {0};
  tt_err e = tt_inventory_create(c, tt_engines, request, &s);
  if (e) return e;
  int root = tt_comm_is_root(c);
  e = TT_ALLOC(mine, 1);
  if (!e && root) e = TT_ALLOC(all, s->ranks);
  e = tt_agree(c, e);
  if (!e) e = check_gpus(c, s, check ? TT_SELF_CHECK_again : TT_SELF_CHECK_never, mine, &found);
  if (!e) {
    check_rank_local(c, job, request, mine);
    tt_gatherv(c, mine, sizeof *mine, all, NULL);
    e = tt_agree(c,
                 root ? report_local(s, &found, job, request, job_error, json, all, count) : TT_OK);
  }
  tt_free(mine);
  tt_free(all);
  tt_free(found.check);
  tt_inventory_destroy(&s);
  return e;
}

tt_err tt_doctor(tt_comm *c, const tt_job_options *o, int json, int check)
{
  tt_job *job = NULL;
  int64_t count = 0;
  char fault[TT_DIAGNOSTIC_SIZE] = "";
  if (o->file && tt_job_open(c, o, &job))
    snprintf(fault, sizeof fault, "job file: %.*s", (int)sizeof fault - 32, tt_err_last());
  tt_resource_request request = tt_resources_request(job ? job->cfg : NULL);
  if (!job) request.share_gpu = 0;
  tt_err e = examine(c, job, &request, fault, json, check, &count);
  tt_job_close(&job);
  if (e) return e;
  tt_bcast(c, &count, sizeof count);
  if (count > 0)
    return TT_FAIL(UNAVAILABLE, "%" PRId64 " problem%s found, see above", count,
                   count == 1 ? "" : "s");
  return TT_OK;
}
