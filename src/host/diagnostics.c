/* diagnostics.c — see diagnostics.h. */
#include "src/host/diagnostics.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_RANKS_LISTED = 4 };

tt_err tt_diagnostics_create(int64_t capacity, tt_diagnostics **out)
{
  tt_diagnostics *f = NULL;
  TT_TRY(TT_ALLOC(f, 1));
  tt_err e = TT_ALLOC(f->all, capacity);
  f->capacity = capacity;
  if (e) tt_diagnostics_destroy(&f);
  *out = f;
  return e;
}

void tt_diagnostics_destroy(tt_diagnostics **f)
{
  if (!*f) return;
  tt_free((*f)->all);
  tt_free(*f);
}

void tt_diagnostics_add(tt_diagnostics *f, int rank, const char *text)
{
  int64_t i = 0;
  while (i < f->count && strncmp(f->all[i].text, text, TT_DIAGNOSTIC_SIZE - 1) != 0) i++;
  if (i == f->capacity) return;
  tt_diagnostic *one = &f->all[i];
  if (i == f->count) {
    f->count++;
    snprintf(one->text, sizeof one->text, "%s", text);
  }
  if (rank < 0) return;
  size_t n = strlen(one->rank_list);
  if (one->ranks++ < MAX_RANKS_LISTED)
    snprintf(one->rank_list + n, sizeof one->rank_list - n, "%s%d", n ? ", " : "", rank);
}

static void check_gpu(tt_diagnostics *f, const tt_inventory *s, const tt_resource_request *request,
                      int r)
{
  const tt_rank_resources *p = &s->rank_entry[r];
  char text[TT_DIAGNOSTIC_SIZE];
  if (p->err) tt_diagnostics_add(f, r, p->fault);
  if (tt_device_not_visible(p, text, sizeof text))
    tt_diagnostics_add(f, r, text);
  else if (p->no_gpu_error && !p->err)
    tt_diagnostics_add(f, r, p->no_gpu_reason);
  else if (p->no_gpu && !p->err) {
    snprintf(text, sizeof text,
             "tutti was built with CUDA but sees no GPU, and would train on the CPU: %s; or set "
             "run.device: cpu",
             p->no_gpu_reason);
    tt_diagnostics_add(f, r, text);
  }
  if (tt_device_is_taken(s->rank_entry, r, request->share_gpu,
                         request->exchange == TT_EXCHANGE_nccl, text, sizeof text))
    tt_diagnostics_add(f, r, text);
}

static void check_cores(tt_diagnostics *f, const tt_rank_resources *p, int r)
{
  char text[TT_DIAGNOSTIC_SIZE];
  if (tt_cores_oversubscribed(p, text, sizeof text)) tt_diagnostics_add(f, r, text);
  if (tt_cores_unused(p, text, sizeof text)) tt_diagnostics_add(f, r, text);
}

void tt_diagnostics_check_inventory(tt_diagnostics *f, const tt_inventory *s,
                                    const tt_resource_request *request)
{
  for (int r = 0; r < s->ranks; r++) check_gpu(f, s, request, r);
  for (int r = 0; r < s->ranks; r++) check_cores(f, &s->rank_entry[r], r);
  if (tt_device_check_engines(s->ranks, s->rank_entry)) tt_diagnostics_add(f, -1, tt_err_last());
}

void tt_diagnostics_print(const tt_diagnostics *f)
{
  if (f->count == 0) printf("no problems found\n");
  for (int64_t i = 0; i < f->count; i++) {
    const tt_diagnostic *one = &f->all[i];
    printf("%" PRId64 ". ", i + 1);
    if (one->ranks > 0) printf("rank%s %s", one->ranks > 1 ? "s" : "", one->rank_list);
    if (one->ranks > MAX_RANKS_LISTED) printf(" and %d more", one->ranks - MAX_RANKS_LISTED);
    printf("%s%s\n", one->ranks > 0 ? ": " : "", one->text);
  }
}
