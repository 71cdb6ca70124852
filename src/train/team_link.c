/* team_link.c — see team_link.h. */
#include "src/train/team_link.h"

#include "core/base/mem.h"

/* The context of the mover. */
typedef struct team_link {
  const tt_device_link_ops *ops;
  tt_device_link *link;
  tt_device_message *message; /* [capacity] */
  int64_t capacity;
} team_link;

static int has_ended(void *team) { return tt_team_is_broken_local(team); }

static int64_t append(team_link *l, int64_t n, int64_t count, const tt_team_message *list,
                      int sends)
{
  for (int64_t k = 0; k < count; k++)
    if (list[k].bytes > 0)
      l->message[n++] = (tt_device_message){list[k].rank, sends, list[k].bytes, list[k].data};
  return n;
}

static tt_err reserve(team_link *l, int64_t count)
{
  if (count <= l->capacity) return TT_OK;
  tt_free(l->message);
  l->capacity = 0;
  TT_TRY(TT_ALLOC(l->message, count));
  l->capacity = count;
  return TT_OK;
}

static tt_err move(void *context, tt_team *t, int64_t sends, const tt_team_message *send,
                   int64_t receives, const tt_team_message *receive)
{
  team_link *l = context;
  const tt_device_link_watch watch = {has_ended, t};
  TT_TRY(reserve(l, sends + receives));
  int64_t n = append(l, append(l, 0, sends, send, 1), receives, receive, 0);
  return l->ops->move(l->link, n, l->message, &watch);
}

static void close_link(void *context)
{
  team_link *l = context;
  l->ops->close(&l->link);
  tt_free(l->message);
  tt_free(l);
}

/* 1 if a rank has an error. */
static int any_failed(tt_team *t, tt_err e)
{
  int64_t failed = e != TT_OK;
  tt_team_max(t, &failed, 1);
  return failed != 0;
}

tt_err tt_team_link_open(tt_team *t, const tt_device_link_ops *ops, int device)
{
  const tt_device_link_watch watch = {has_ended, t};
  tt_device_link_id id = {{0}};
  team_link *l = NULL;
  tt_err e = TT_ALLOC(l, 1);
  if (!e && tt_team_rank(t) == 0) e = ops->make_id(&id);
  if (any_failed(t, e)) {
    tt_free(l);
    return e;
  }
  l->ops = ops;
  tt_team_bcast(t, &id, (int64_t)sizeof id);
  e = ops->open(&id, device, tt_team_ranks(t), tt_team_rank(t), &watch, &l->link);
  if (e) tt_team_break_local(t);
  tt_team_use_mover_local(t, &(tt_team_mover){move, close_link, l});
  return e;
}
