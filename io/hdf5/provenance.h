/* provenance.h — the group /provenance of every output file: command, versions, host,
 * configuration. */
#ifndef TT_PROVENANCE_H
#define TT_PROVENANCE_H
#include "io/hdf5/h5.h"

#include <stdint.h>

/* Texts are borrowed. Everything that differs between equal runs (wall time, host, ranks) is stored
 * in this group and nowhere else in a file. */
typedef struct tt_provenance {
  const char *title;    /* of the job, may be "" */
  const char *resolved; /* the resolved configuration as YAML */
  const char *original; /* the job file as given */
  const char *device, *arithmetic;
  const char *command;
  uint64_t seed, data_hash, result_hash;
  int ranks, threads;
  double wall_seconds;
  int64_t epochs_planned, epochs_trained; /* whole epochs of all members; 0 = no training */
  int64_t repeated_rows, seen_rows;       /* as in tt_dataset */
  const char *dependence; /* how members depend on each other; "" or NULL: independent */
} tt_provenance;

/* Attributes of /provenance that are texts: field. */
#define TT_ORIGIN_TEXTS(X)                                                                         \
  X(command)                                                                                       \
  X(version)                                                                                       \
  X(mpi_version)                                                                                   \
  X(hdf5_version)                                                                                  \
  X(date_created)                                                                                  \
  X(host)                                                                                          \
  X(slurm_job_id)                                                                                  \
  X(device)                                                                                        \
  X(arithmetic)                                                                                    \
  X(data_hash_xxh3)                                                                                \
  X(result_hash_xxh3)                                                                              \
  X(member_dependence)
enum {
#define X(name) TT_ORIGIN_##name,
  TT_ORIGIN_TEXTS(X)
#undef X
      TT_ORIGIN_COUNT
};

/* Read these texts; NULL where the file has none. Owner: the caller, each text. Local.
 * Errors: DATA, IO, MEM. */
tt_err tt_origin_read_local(tt_h5_reader *r, char *origin[TT_ORIGIN_COUNT]);
#endif
