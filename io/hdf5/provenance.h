/* provenance.h — the group /provenance of every output file: command, versions, host,
 * configuration. */
#ifndef TT_PROVENANCE_H
#define TT_PROVENANCE_H
#include "io/hdf5/h5.h"

#include <stdint.h>

/* Texts are borrowed; NULL and "", and numbers that are 0, are not written. What is the same for
 * all files is found by the function that writes them: command, versions, host, user, directory,
 * date. Everything that differs between equal runs (wall time, host, ranks) is stored in this group
 * and in the attribute `history` of the root. */
typedef struct tt_provenance {
  const char *title;    /* of the job */
  const char *resolved; /* the resolved configuration as YAML */
  const char *original; /* the job file as given */
  const char *device, *arithmetic;
  const char *model;   /* model.h5 that the file was made from: its path; seed, hashes and
                        * configurations that are not given here are those of the model */
  uint64_t model_hash; /* tt_trained_ensembles.hash */
  uint64_t seed, data_hash, result_hash;
  int ranks, threads;
  double wall_seconds;                    /* 0: since the start of the program */
  int64_t epochs_planned, epochs_trained; /* whole epochs of all members; 0 = no training */
  int64_t repeated_rows, seen_rows;       /* as in tt_dataset */
  const char *dependence;                 /* how members depend on each other; NULL: independent */
  const char *member_weights;             /* how they were set after training; NULL: not at all */
} tt_provenance;

/* Attributes of /provenance that are texts: field, label for people. */
#define TT_ORIGIN_TEXTS(X)                                                                         \
  X(command, "command")                                                                            \
  X(version, "program")                                                                            \
  X(commit, "commit")                                                                              \
  X(mpi_version, "MPI")                                                                            \
  X(hdf5_version, "HDF5")                                                                          \
  X(date_created, "written")                                                                       \
  X(host, "host")                                                                                  \
  X(user, "user")                                                                                  \
  X(directory, "directory")                                                                        \
  X(slurm_job_id, "Slurm job")                                                                     \
  X(device, "device")                                                                              \
  X(arithmetic, "arithmetic")                                                                      \
  X(data_hash_xxh3, "hash of the data")                                                            \
  X(result_hash_xxh3, "hash of the options")                                                       \
  X(model, "model")                                                                                \
  X(model_hash_xxh3, "hash of the model")                                                          \
  X(member_dependence, "dependence")                                                               \
  X(member_weights, "member weights")
enum {
#define X(name, ...) TT_ORIGIN_##name,
  TT_ORIGIN_TEXTS(X)
#undef X
      TT_ORIGIN_COUNT
};

/* Read these texts; NULL where the file has none. Owner: the caller, each text. Local.
 * Errors: DATA, IO, MEM. */
tt_err tt_origin_read_local(tt_h5_reader *r, char *origin[TT_ORIGIN_COUNT]);
#endif
