/* schema_provenance.c — root attributes and /provenance of every output file. */
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "io/hdf5/schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const origin_name[TT_ORIGIN_COUNT] = {
#define X(name) #name,
    TT_ORIGIN_TEXTS(X)
#undef X
};

/* Values of rank 0, because attributes must be the same on all ranks and times, hosts and
 * processors differ. Long texts are truncated, except the two configurations, which are datasets.
 */
typedef struct provenance_values {
  char title[1024], command[4096], device[256], arithmetic[64];
  char version[64], dependence[128], mpi[512], hdf5[64], date[32], host[256], job[64];
  int64_t resolved, original; /* lengths */
  tt_provenance given;        /* only its numbers are used */
} provenance_values;

#define COPY_TEXT(field_, text_) snprintf(field_, sizeof(field_), "%s", (text_) ? (text_) : "")

static void collect_provenance_local(const tt_provenance *from, provenance_values *k)
{
  const char *job = getenv("SLURM_JOB_ID"), *version = "tutti " TUTTI_VERSION;
  COPY_TEXT(k->title, from->title);
  COPY_TEXT(k->command, from->command);
  COPY_TEXT(k->device, from->device);
  COPY_TEXT(k->arithmetic, from->arithmetic);
  COPY_TEXT(k->dependence, from->dependence);
  COPY_TEXT(k->version, version);
  COPY_TEXT(k->job, job);
  tt_comm_versions_local(k->mpi, sizeof k->mpi);
  tt_h5_version_local(k->hdf5, sizeof k->hdf5);
  tt_utc_text(k->date);
  gethostname(k->host, sizeof k->host - 1);
  k->given = *from;
  k->resolved = tt_h5_max_text_length(1, &from->resolved);
  k->original = tt_h5_max_text_length(1, &from->original);
}

static void write_text(tt_h5_file *f, const char *path, const char *dim, int64_t length,
                       const char *text)
{
  tt_h5_create_dimension(f, dim, length);
  tt_h5_write_text(f, path, length, text);
  tt_h5_attach_scales(f, path, &dim, 1);
}

static void write_hash(tt_h5_file *f, const char *name, uint64_t hash)
{
  char text[TT_HASH_TEXT];
  tt_hash_text(hash, text);
  tt_h5_write_attr_text(f, "provenance", name, text);
}

static void write_group(tt_h5_file *f, const provenance_values *k, const tt_provenance *from)
{
  const tt_provenance *g = &k->given;
  tt_h5_create_group(f, "provenance");
  const struct {
    const char *name, *text;
  } texts[] = {{"command", k->command},       {"version", k->version},
               {"mpi_version", k->mpi},       {"hdf5_version", k->hdf5},
               {"date_created", k->date},     {"host", k->host},
               {"slurm_job_id", k->job},      {"device", k->device},
               {"arithmetic", k->arithmetic}, {"member_dependence", k->dependence}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (texts[i].text[0]) tt_h5_write_attr_text(f, "provenance", texts[i].name, texts[i].text);
  tt_h5_write_attr(f, "provenance", "seed", TT_H5_U64, 1, &g->seed);
  write_hash(f, "data_hash_xxh3", g->data_hash);
  write_hash(f, "result_hash_xxh3", g->result_hash);
  tt_h5_write_attr(f, "provenance", "ranks", TT_H5_I32, 1, &g->ranks);
  tt_h5_write_attr(f, "provenance", "threads", TT_H5_I32, 1, &g->threads);
  tt_h5_write_attr(f, "provenance", "wall_seconds", TT_H5_F64, 1, &g->wall_seconds);
  if (g->epochs_planned > 0) {
    tt_h5_write_attr(f, "provenance", "member_epochs_planned", TT_H5_I64, 1, &g->epochs_planned);
    tt_h5_write_attr(f, "provenance", "member_epochs_trained", TT_H5_I64, 1, &g->epochs_trained);
  }
  if (g->repeated_rows > 0) {
    tt_h5_write_attr(f, "provenance", "repeated_rows", TT_H5_I64, 1, &g->repeated_rows);
    tt_h5_write_attr(f, "provenance", "seen_rows", TT_H5_I64, 1, &g->seen_rows);
  }
  write_text(f, "provenance/resolved_config", "provenance/resolved_config_strlen", k->resolved,
             from->resolved);
  write_text(f, "provenance/original_config", "provenance/original_config_strlen", k->original,
             from->original);
}

void tt_schema_write_header(tt_schema *s, tt_comm *c, tt_h5_file *f, const char *schema,
                            const tt_provenance *from)
{
  provenance_values k = {0};
  char conventions[64];
  memset(s, 0, sizeof *s);
  s->file = f;
  if (tt_comm_is_root(c)) collect_provenance_local(from, &k);
  tt_bcast(c, &k, sizeof k);
  snprintf(conventions, sizeof conventions, "CF-1.10 %s", schema);
  tt_h5_write_attr_text(f, "/", "Conventions", conventions);
  tt_h5_write_attr_text(f, "/", "tutti_schema", schema);
  if (k.title[0]) tt_h5_write_attr_text(f, "/", "title", k.title);
  tt_h5_write_attr_text(f, "/", "source", k.version);
  write_group(f, &k, from);
}

tt_err tt_origin_read_local(tt_h5_reader *r, char *origin[TT_ORIGIN_COUNT])
{
  if (!tt_h5_has_local(r, "provenance")) return TT_OK;
  for (int i = 0; i < TT_ORIGIN_COUNT; i++)
    if (tt_h5_has_attr_local(r, "provenance", origin_name[i]))
      TT_TRY(tt_h5_read_attr_text_local(r, "provenance", origin_name[i], &origin[i]));
  return TT_OK;
}
