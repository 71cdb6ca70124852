/* diagnostics.c — see diagnostics.h. */
#include "src/host/diagnostics.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { RANKS_NAMED = 4 };

tt_err tt_findings_create(int64_t room, tt_findings **out)
{
  tt_findings *f = NULL;
  TT_TRY(TT_ALLOC(f, 1));
  tt_err e = TT_ALLOC(f->all, room);
  f->room = room;
  if (e)
    tt_findings_destroy(&f);
  else
    *out = f;
  return e;
}

void tt_findings_destroy(tt_findings **f)
{
  if (!*f) return;
  tt_free((*f)->all);
  tt_free(*f);
}

void tt_findings_add(tt_findings *f, int rank, const char *text)
{
  int64_t i = 0;
  while (i < f->count && strncmp(f->all[i].text, text, TT_FINDING_ROOM - 1) != 0)
    i++;
  if (i == f->room) return;
  tt_finding *one = &f->all[i];
  if (i == f->count) {
    f->count++;
    snprintf(one->text, sizeof one->text, "%s", text);
  }
  if (rank < 0) return;
  size_t n = strlen(one->who);
  if (one->ranks++ < RANKS_NAMED)
    snprintf(one->who + n, sizeof one->who - n, "%s%d", n ? ", " : "", rank);
}

static void check_gpu(tt_findings *f, const tt_survey *s, const tt_wish *wish, int r)
{
  const tt_place *p = &s->place[r];
  char text[TT_FINDING_ROOM];
  int twin = wish->share_gpu ? -1 : tt_device_twin(s->place, r);
  if (p->err) tt_findings_add(f, r, p->fault);
  if (tt_device_unseen(p, text, sizeof text))
    tt_findings_add(f, r, text);
  else if (p->no_gpu && !p->err)
    tt_findings_add(f, r,
                    "tutti was built with CUDA but sees no GPU, and would train on the CPU: check "
                    "nvidia-smi, the job's --gpus or --gpus-per-task, and CUDA_VISIBLE_DEVICES, or "
                    "set run.device: cpu");
  if (twin < 0) return;
  snprintf(text, sizeof text,
           "the same GPU as rank %d on %s, %s (%s): give each rank its own (srun "
           "--gpus-per-task=1, or --gpu-map), or let ranks share GPUs (--share-gpu, "
           "run.share_gpu: true)",
           twin, s->place[twin].host, p->info.uuid, p->info.name);
  tt_findings_add(f, r, text);
}

static void check_cores(tt_findings *f, const tt_place *p, int r)
{
  char text[TT_FINDING_ROOM];
  if (tt_device_crowded(p, text, sizeof text)) tt_findings_add(f, r, text);
}

void tt_findings_survey(tt_findings *f, const tt_survey *s, const tt_wish *wish)
{
  for (int r = 0; r < s->ranks; r++)
    check_gpu(f, s, wish, r);
  for (int r = 0; r < s->ranks; r++)
    check_cores(f, &s->place[r], r);
  if (tt_device_check_engines(s->ranks, s->place)) tt_findings_add(f, -1, tt_err_last());
}

void tt_findings_print(const tt_findings *f)
{
  if (f->count == 0) printf("nothing is wrong\n");
  for (int64_t i = 0; i < f->count; i++) {
    const tt_finding *one = &f->all[i];
    printf("%" PRId64 ". ", i + 1);
    if (one->ranks > 0) printf("rank%s %s", one->ranks > 1 ? "s" : "", one->who);
    if (one->ranks > RANKS_NAMED) printf(" and %d more", one->ranks - RANKS_NAMED);
    printf("%s%s\n", one->ranks > 0 ? ": " : "", one->text);
  }
}
