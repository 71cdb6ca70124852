/* schema_provenance.c — root attributes and /provenance of every output file. */
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "io/hdf5/h5_internal.h"
#include "io/hdf5/schema.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

static const char *const origin_name[TT_ORIGIN_COUNT] = {TT_ORIGIN_TEXTS(TT_ROW_NAME)};

/* Values of rank 0, because attributes must be the same on all ranks and times, hosts and
 * processors differ. Long texts are truncated, except the two configurations, which are datasets.
 */
enum { TEXT_ROOM = TT_PATH_MAX };
typedef struct provenance_values {
  char origin[TT_ORIGIN_COUNT][TEXT_ROOM], title[1024], run[TT_HASH_TEXT];
  int64_t resolved, original; /* lengths; 0: no such dataset */
  tt_provenance given;        /* only its numbers are used */
} provenance_values;

/* The arguments of this process, as the system has them. */
static void find_command(char *text, size_t size)
{
  FILE *f = fopen("/proc/self/cmdline", "r");
  size_t n = f ? fread(text, 1, size - 1, f) : 0;
  text[n] = '\0';
  for (size_t i = 0; i + 1 < n; i++)
    if (text[i] == '\0' || text[i] == '\n') text[i] = ' ';
  if (f) fclose(f);
}

static void find_user(char *text, size_t size)
{
  struct passwd entry, *found = NULL;
  char scratch[1024];
  if (getpwuid_r(geteuid(), &entry, scratch, sizeof scratch, &found) || !found)
    snprintf(text, size, "%ld", (long)geteuid());
  else
    snprintf(text, size, "%s", entry.pw_name);
}

/* Seconds since this process has started. */
static double process_seconds(void)
{
  double up = 0.0, ticks = 0.0;
  char text[1024] = "";
  FILE *f = fopen("/proc/uptime", "r");
  if (f && fscanf(f, "%lf", &up) != 1) up = 0.0;
  if (f) fclose(f);
  f = fopen("/proc/self/stat", "r");
  if (f && !fgets(text, sizeof text, f)) text[0] = '\0';
  if (f) fclose(f);
  const char *cursor = strrchr(text, ')'); /* the name may hold spaces */
  for (int field = 2; cursor && field < 22; field++) cursor = strchr(cursor + 1, ' ');
  if (cursor) ticks = strtod(cursor, NULL);
  double seconds = up - ticks / (double)sysconf(_SC_CLK_TCK);
  return seconds > 0.001 ? seconds : 0.001;
}

/* Identifies a run: equal runs, and the parts of an interrupted one, have the same. The hash of the
 * results is of the seed, too. */
static void name_run(const tt_provenance *g, char run[TT_HASH_TEXT])
{
  const uint64_t hashes[] = {g->result_hash, g->data_hash};
  if (g->result_hash) tt_hash_text(XXH3_64bits(hashes, sizeof hashes), run);
}

static uint64_t read_hash(tt_h5_reader *r, const char *name)
{
  char *text = NULL;
  uint64_t hash = 0;
  if (tt_h5_has_attr_local(r, "provenance", name) &&
      !tt_h5_read_attr_text_local(r, "provenance", name, &text))
    hash = strtoull(text, NULL, 16);
  tt_free(text);
  return hash;
}

/* What is not given, from the model that the file was made from.
 *   config  the two configurations; owner: the caller */
static tt_err read_model_local(tt_h5_reader *r, tt_provenance *g, char *config[2])
{
  char *hash = NULL, found[TT_HASH_TEXT];
  tt_hash_text(g->model_hash, found);
  TT_TRY(tt_h5_read_attr_text_local(r, "/", "content_hash_xxh3", &hash));
  int same = !strcmp(hash, found);
  tt_free(hash);
  if (!same) return TT_FAIL(DATA, "%s has changed since it was read", tt_h5_file_name(r));
  if (g->resolved) return TT_OK;
  if (!g->seed && tt_h5_has_attr_local(r, "provenance", "seed"))
    TT_TRY(tt_h5_read_attr_local(r, "provenance", "seed", TT_H5_U64, 1, &g->seed));
  g->data_hash = read_hash(r, "data_hash_xxh3");
  g->result_hash = read_hash(r, "result_hash_xxh3");
  static const char *const name[] = {"provenance/resolved_config", "provenance/original_config"};
  for (int i = 0; i < 2; i++)
    if (tt_h5_has_local(r, name[i])) TT_TRY(tt_h5_read_text_local(r, name[i], &config[i]));
  g->resolved = config[0];
  g->original = config[1];
  return TT_OK;
}

static void write_hash(provenance_values *k, int row, uint64_t hash)
{
  if (hash) tt_hash_text(hash, k->origin[row]);
}

static tt_err collect_provenance_local(tt_provenance *g, char *config[2], provenance_values *k)
{
  if (g->model) {
    tt_h5_reader *r = NULL;
    TT_TRY(tt_h5_open_local(g->model, &r));
    tt_err e = read_model_local(r, g, config);
    tt_h5_close_local(&r);
    if (e) return e;
    char *path = realpath(g->model, NULL);
    snprintf(k->origin[TT_ORIGIN_model], TEXT_ROOM, "%s", path ? path : g->model);
    free(path);
  }
  const char *const known[TT_ORIGIN_COUNT] = {[TT_ORIGIN_version] = "tutti " TUTTI_VERSION,
                                              [TT_ORIGIN_commit] = TUTTI_COMMIT,
                                              [TT_ORIGIN_slurm_job_id] = getenv("SLURM_JOB_ID"),
                                              [TT_ORIGIN_device] = g->device,
                                              [TT_ORIGIN_arithmetic] = g->arithmetic,
                                              [TT_ORIGIN_member_dependence] = g->dependence,
                                              [TT_ORIGIN_member_weights] = g->member_weights};
  for (int i = 0; i < TT_ORIGIN_COUNT; i++)
    if (known[i]) snprintf(k->origin[i], TEXT_ROOM, "%s", known[i]);
  snprintf(k->title, sizeof k->title, "%s", g->title ? g->title : "");
  find_command(k->origin[TT_ORIGIN_command], TEXT_ROOM);
  find_user(k->origin[TT_ORIGIN_user], TEXT_ROOM);
  if (!getcwd(k->origin[TT_ORIGIN_directory], TEXT_ROOM)) *k->origin[TT_ORIGIN_directory] = '\0';
  tt_comm_versions_local(k->origin[TT_ORIGIN_mpi_version], TEXT_ROOM);
  tt_h5_version_local(k->origin[TT_ORIGIN_hdf5_version], TEXT_ROOM);
  tt_utc_text(k->origin[TT_ORIGIN_date_created]);
  gethostname(k->origin[TT_ORIGIN_host], TEXT_ROOM - 1);
  write_hash(k, TT_ORIGIN_data_hash_xxh3, g->data_hash);
  write_hash(k, TT_ORIGIN_result_hash_xxh3, g->result_hash);
  write_hash(k, TT_ORIGIN_model_hash_xxh3, g->model_hash);
  if (!(g->wall_seconds > 0.0)) g->wall_seconds = process_seconds();
  name_run(g, k->run);
  k->given = *g;
  k->resolved = g->resolved && *g->resolved ? (int64_t)strlen(g->resolved) : 0;
  k->original = g->original && *g->original ? (int64_t)strlen(g->original) : 0;
  return TT_OK;
}

static void write_config(tt_h5_file *f, const char *name, int64_t length, const char *text)
{
  char path[64], dim[64];
  const char *scale = dim;
  if (!length) return;
  snprintf(path, sizeof path, "provenance/%s", name);
  snprintf(dim, sizeof dim, "provenance/%s_strlen", name);
  tt_h5_create_dimension(f, dim, length);
  tt_h5_write_text(f, path, length, text);
  tt_h5_attach_scales(f, path, &scale, 1);
}

static void write_number(tt_h5_file *f, const char *name, int64_t number)
{
  if (number > 0) tt_h5_write_attr(f, "provenance", name, TT_H5_I64, 1, &number);
}

static void write_group(tt_h5_file *f, const provenance_values *k, const tt_provenance *provenance)
{
  const tt_provenance *g = &k->given;
  tt_h5_create_group(f, "provenance");
  for (int i = 0; i < TT_ORIGIN_COUNT; i++)
    if (*k->origin[i]) tt_h5_write_attr_text(f, "provenance", origin_name[i], k->origin[i]);
  if (k->resolved) tt_h5_write_attr(f, "provenance", "seed", TT_H5_U64, 1, &g->seed);
  write_number(f, "ranks", g->ranks);
  write_number(f, "threads", g->threads);
  tt_h5_write_attr(f, "provenance", "wall_seconds", TT_H5_F64, 1, &g->wall_seconds);
  write_number(f, "member_epochs_planned", g->epochs_planned);
  if (g->epochs_planned > 0)
    tt_h5_write_attr(f, "provenance", "member_epochs_trained", TT_H5_I64, 1, &g->epochs_trained);
  write_number(f, "repeated_rows", g->repeated_rows);
  if (g->repeated_rows > 0)
    tt_h5_write_attr(f, "provenance", "seen_rows", TT_H5_I64, 1, &g->seen_rows);
  write_config(f, "resolved_config", k->resolved, tt_h5_is_root(f) ? provenance->resolved : "");
  write_config(f, "original_config", k->original, tt_h5_is_root(f) ? provenance->original : "");
}

static void write_root(tt_h5_file *f, const provenance_values *k, const char *schema)
{
  char text[TEXT_ROOM + 64];
  snprintf(text, sizeof text, "CF-1.10 %s", schema);
  tt_h5_write_attr_text(f, "/", "Conventions", text);
  tt_h5_write_attr_text(f, "/", "tutti_schema", schema);
  if (k->title[0]) tt_h5_write_attr_text(f, "/", "title", k->title);
  tt_h5_write_attr_text(f, "/", "source", "tutti " TUTTI_VERSION);
  snprintf(text, sizeof text, "%.32s: %s", k->origin[TT_ORIGIN_date_created],
           k->origin[TT_ORIGIN_command]);
  tt_h5_write_attr_text(f, "/", "history", text);
  if (k->run[0]) tt_h5_write_attr_text(f, "/", "run", k->run);
  if (k->resolved) tt_h5_write_attr(f, "/", "seed", TT_H5_U64, 1, &k->given.seed);
}

void tt_schema_write_header(tt_schema *s, tt_comm *c, tt_h5_file *f, const char *schema,
                            const tt_provenance *provenance)
{
  provenance_values *k = NULL;
  tt_provenance given = provenance ? *provenance : (tt_provenance){.title = NULL};
  char *config[2] = {NULL, NULL};
  *s = (tt_schema){.file = f};
  if (f->error) return;
  tt_err e = TT_ALLOC(k, 1);
  if (!e && tt_h5_is_root(f)) e = collect_provenance_local(&given, config, k);
  if (!tt_h5_vote(f, e)) {
    if (c) tt_bcast(c, k, sizeof *k);
    write_root(f, k, schema);
    write_group(f, k, &given);
  }
  tt_free_all(&config[0], &config[1], &k);
}

tt_err tt_origin_read_local(tt_h5_reader *r, char *origin[TT_ORIGIN_COUNT])
{
  if (!tt_h5_has_local(r, "provenance")) return TT_OK;
  for (int i = 0; i < TT_ORIGIN_COUNT; i++)
    if (tt_h5_has_attr_local(r, "provenance", origin_name[i]))
      TT_TRY(tt_h5_read_attr_text_local(r, "provenance", origin_name[i], &origin[i]));
  return TT_OK;
}
