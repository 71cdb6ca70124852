/* mpi.h — the part of MPI that tutti uses, for one process (-DTUTTI_MPI=OFF; PETSc has its mpiuni
 * for this). With one rank mpi/comm.c sends no message, so the functions that send do not return:
 * they are there to be compiled. */
#ifndef TT_SERIAL_MPI_H
#define TT_SERIAL_MPI_H
#pragma GCC system_header /* no warnings of parameters without a use */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MPI_SERIAL 1 /* there is no MPI */

typedef int MPI_Comm, MPI_Op, MPI_Info, MPI_Errhandler, MPI_Request, MPI_File, MPI_Fint;
typedef int MPI_Datatype; /* bytes of a value */
typedef int MPI_Status;

enum { MPI_COMM_NULL, MPI_COMM_WORLD, MPI_COMM_SELF };
enum { MPI_BYTE = 1, MPI_INT = 4, MPI_INT64_T = 8, MPI_2INT = 8, MPI_DOUBLE = 8 };
enum { MPI_SUM, MPI_MAX, MPI_MAXLOC };
enum { MPI_THREAD_FUNNELED, MPI_COMM_TYPE_SHARED, MPI_INFO_NULL, MPI_FILE_NULL };
enum { MPI_MAX_ERROR_STRING = 256, MPI_ANY_SOURCE = -1 };
#define MPI_IN_PLACE NULL
#define MPI_STATUS_IGNORE NULL

#define ONE_PROCESS(name, parameters, ...)                                                         \
  static inline int name parameters                                                                \
  {                                                                                                \
    __VA_ARGS__;                                                                                   \
    return 0;                                                                                      \
  }

ONE_PROCESS(MPI_Initialized, (int *flag), *flag = 0)
ONE_PROCESS(MPI_Finalized, (int *flag), *flag = 0)
ONE_PROCESS(MPI_Init_thread, (int *argc, char ***argv, int wanted, int *got), *got = wanted)
ONE_PROCESS(MPI_Finalize, (void), )
ONE_PROCESS(MPI_Abort, (MPI_Comm c, int code), _exit(code))
ONE_PROCESS(MPI_Error_string, (int code, char *text, int *length),
            *length = snprintf(text, MPI_MAX_ERROR_STRING, "error %d", code))
static inline double MPI_Wtime(void) { return 0.0; }

ONE_PROCESS(MPI_Comm_rank, (MPI_Comm c, int *rank), *rank = 0)
ONE_PROCESS(MPI_Comm_size, (MPI_Comm c, int *ranks), *ranks = 1)
ONE_PROCESS(MPI_Comm_dup, (MPI_Comm c, MPI_Comm *out), *out = c)
ONE_PROCESS(MPI_Comm_split, (MPI_Comm c, int color, int key, MPI_Comm *out), *out = c)
ONE_PROCESS(MPI_Comm_split_type, (MPI_Comm c, int type, int key, MPI_Info info, MPI_Comm *out),
            *out = c)
ONE_PROCESS(MPI_Comm_free, (MPI_Comm * c), *c = MPI_COMM_NULL)
static inline MPI_Comm MPI_Comm_f2c(MPI_Fint handle) { return MPI_COMM_NULL; }
static inline MPI_Fint MPI_Comm_c2f(MPI_Comm c) { return c; }

ONE_PROCESS(MPI_Comm_create_errhandler,
            (void (*function)(MPI_Comm *, int *, ...), MPI_Errhandler *out), *out = 0)
ONE_PROCESS(MPI_File_create_errhandler,
            (void (*function)(MPI_File *, int *, ...), MPI_Errhandler *out), *out = 0)
ONE_PROCESS(MPI_Comm_set_errhandler, (MPI_Comm c, MPI_Errhandler h), )
ONE_PROCESS(MPI_File_set_errhandler, (MPI_File f, MPI_Errhandler h), )
ONE_PROCESS(MPI_Errhandler_free, (MPI_Errhandler * h), )

ONE_PROCESS(MPI_Barrier, (MPI_Comm c), )
ONE_PROCESS(MPI_Bcast, (void *data, int n, MPI_Datatype t, int root, MPI_Comm c), )
ONE_PROCESS(MPI_Allreduce,
            (const void *in, void *out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c),
            if (in != MPI_IN_PLACE) memcpy(out, in, (size_t)n *(size_t)t))
ONE_PROCESS(MPI_Allgather,
            (const void *in, int n, MPI_Datatype t, void *out, int m, MPI_Datatype u, MPI_Comm c),
            memcpy(out, in, (size_t)n *(size_t)t))
ONE_PROCESS(MPI_Gather,
            (const void *in, int n, MPI_Datatype t, void *out, int m, MPI_Datatype u, int root,
             MPI_Comm c),
            memcpy(out, in, (size_t)n *(size_t)t))
ONE_PROCESS(MPI_Iprobe, (int sender, int tag, MPI_Comm c, int *flag, MPI_Status *s), *flag = 0)

ONE_PROCESS(MPI_Allgatherv,
            (const void *in, int n, MPI_Datatype t, void *out, const int *counts, const int *index,
             MPI_Datatype u, MPI_Comm c),
            abort())
ONE_PROCESS(MPI_Gatherv,
            (const void *in, int n, MPI_Datatype t, void *out, const int *counts, const int *index,
             MPI_Datatype u, int root, MPI_Comm c),
            abort())
ONE_PROCESS(MPI_Send, (const void *data, int n, MPI_Datatype t, int receiver, int tag, MPI_Comm c),
            abort())
ONE_PROCESS(MPI_Recv,
            (void *data, int n, MPI_Datatype t, int sender, int tag, MPI_Comm c, MPI_Status *s),
            abort())
ONE_PROCESS(MPI_Isend,
            (const void *data, int n, MPI_Datatype t, int receiver, int tag, MPI_Comm c,
             MPI_Request *r),
            abort())
ONE_PROCESS(MPI_Irecv,
            (void *data, int n, MPI_Datatype t, int sender, int tag, MPI_Comm c, MPI_Request *r),
            abort())
ONE_PROCESS(MPI_Request_free, (MPI_Request * r), abort())
ONE_PROCESS(MPI_Wait, (MPI_Request * r, MPI_Status *s), abort())
#undef ONE_PROCESS
#endif
