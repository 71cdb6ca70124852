/* provenance.h — where a file comes from; the group /provenance of every output. Floor 3. */
#ifndef TT_PROVENANCE_H
#define TT_PROVENANCE_H
#include <stdint.h>

/* Texts are borrowed. None of them, nor the file, depends on anything but its fields: wall times
 * and hosts are kept here and never enter results. */
typedef struct tt_provenance {
  const char *title;    /* of the job, may be "" */
  const char *resolved; /* the resolved configuration as YAML */
  const char *original; /* the job file as given */
  const char *device, *arithmetic;
  const char *command;
  uint64_t seed, data_hash, result_hash;
  int ranks, threads;
  double wall_seconds;
  int64_t epochs_planned, epochs_trained; /* whole epochs of all members; 0 = nothing was trained */
  const char *dependence; /* how members depend on each other; "" or NULL: they do not */
} tt_provenance;
#endif
