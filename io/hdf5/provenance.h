/* provenance.h — the group /provenance of every output file: command, versions, host,
 * configuration. */
#ifndef TT_PROVENANCE_H
#define TT_PROVENANCE_H
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
  const char *dependence; /* how members depend on each other; "" or NULL: independent */
} tt_provenance;
#endif
