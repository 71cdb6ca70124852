/* allocations.h — calls of the functions that allocate, counted in test_workspace.c. */
#ifndef TT_ALLOCATIONS_H
#define TT_ALLOCATIONS_H
extern int allocations;
#endif
