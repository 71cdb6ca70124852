/* shared_data.cu — see shared_data.cuh. */
#include "cuda/common/shared_data.cuh"

#include "core/base/mem.h"

static tt_shared_data *copies; /* all that have users */

static tt_shared_data *find(const tt_dev *dev, const tt_dataset *d)
{
  tt_shared_data *s = copies;
  while (s && (s->of != d || s->device != dev->number)) s = s->next;
  return s;
}

static tt_err upload_all(cudaStream_t to, const tt_dataset *d, tt_shared_data *s)
{
  int64_t rows = d->rows, labels = rows * d->targets;
  TT_TRY(tt_dev_new(&s->x, d->x, rows * d->inputs, "inputs of the data set", to));
  TT_TRY(tt_dev_new(&s->y, d->y, labels, "targets of the data set", to));
  if (d->weight) TT_TRY(tt_dev_new(&s->weight, d->weight, rows, "weights of the data set", to));
  if (!d->label_variance) return TT_OK;
  return tt_dev_new(&s->label_variance, d->label_variance, labels, "errors of the labels", to);
}

static void destroy(tt_shared_data *s)
{
  tt_dev_free(s->x);
  tt_dev_free(s->y);
  tt_dev_free(s->weight);
  tt_dev_free(s->label_variance);
  tt_free(s);
}

tt_err tt_shared_data_acquire(const tt_dev *dev, const tt_dataset *d, tt_shared_data **out)
{
  tt_shared_data *s = find(dev, d);
  *out = NULL;
  if (!s) {
    TT_TRY(TT_ALLOC(s, 1));
    tt_err e = upload_all(dev->stream, d, s);
    if (e) {
      destroy(s);
      return e;
    }
    s->of = d;
    s->device = dev->number;
    s->next = copies;
    copies = s;
  }
  s->users++;
  *out = s;
  return TT_OK;
}

void tt_shared_data_release(tt_shared_data **shared)
{
  tt_shared_data *s = *shared;
  *shared = NULL;
  if (!s || --s->users > 0) return;
  tt_shared_data **link = &copies;
  while (*link != s) link = &(*link)->next;
  *link = s->next;
  destroy(s);
}
