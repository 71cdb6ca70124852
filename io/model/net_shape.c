/* net_shape.c — checks of the shape of a network that both layouts of model.h5 need; see
 * model_internal.h. */
#include "io/hdf5/schema.h"
#include "io/model/model_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

tt_err tt_model_read_vector_local(tt_h5_reader *r, const char *path, tt_h5_type type, int64_t n,
                                  void *out)
{
  TT_TRY(tt_schema_check_shape_local(r, path, 1, &n));
  return tt_h5_read_rows_local(r, path, type, 0, n, out);
}

tt_err tt_model_find_choice(tt_h5_reader *r, const char *object, const char *name, const char *text,
                            const char *const *choice, int *out)
{
  int i = 0;
  while (choice[i] && strcmp(choice[i], text) != 0) i++;
  *out = i;
  if (choice[i]) return TT_OK;
  return TT_FAIL(DATA, "%s: '%s' of '%s' is '%s', which this version does not know",
                 tt_h5_file_name(r), name, object, text);
}

tt_err tt_model_check_levels(tt_h5_reader *r, const char *group, const float *level,
                             tt_model_net *n)
{
  for (int32_t j = 0; j < n->shape.levels; j++) {
    n->level[j] = (double)level[j];
    if (!(level[j] > 0.0f && level[j] < 1.0f) || (j > 0 && !(level[j] > level[j - 1])))
      return TT_FAIL(DATA, "%s: 'level' of '%s' holds %g" TT_DAMAGED, tt_h5_file_name(r), group,
                     (double)level[j]);
  }
  n->shape.level = n->level;
  return TT_OK;
}

static tt_err front_is_damaged(tt_h5_reader *r, const char *group, const char *why)
{
  return TT_FAIL(DATA, "%s: the front of '%s' is not possible: %s" TT_DAMAGED, tt_h5_file_name(r),
                 group, why);
}

tt_err tt_model_parse_front(tt_h5_reader *r, const char *group, const char *text, int32_t axes,
                            const int32_t size[3], tt_activation activation, tt_model_net *n)
{
  int possible = 0;
  tt_front_fault fault;
  if (axes < 1 || axes > 2) return front_is_damaged(r, group, "axes are neither 1 nor 2");
  const int64_t whole[] = {size[0], axes == 1 ? size[2] : size[1], size[2]};
  TT_TRY(tt_front_read(text,
                       &(tt_front_shape){.dims = axes, .size = whole, .activation = activation},
                       &n->front, &possible, &fault));
  if (!possible) return front_is_damaged(r, group, fault.why);
  n->shape.front = &n->front;
  return TT_OK;
}

tt_err tt_model_lay_out_net(tt_h5_reader *r, const char *group, tt_model_net *n, tt_model *out)
{
  int64_t last = n->width[n->layers - 1],
          each = tt_outputs_per_target(n->shape.output, n->shape.levels);
  if (last % each || last < each)
    return TT_FAIL(DATA, "%s: the last layer has %" PRId64 " outputs, which does not fit output %s",
                   tt_h5_file_name(r), last, tt_choice_output[n->shape.output]);
  n->shape.targets = last / each;
  n->shape.hidden = n->width;
  n->shape.layers = n->layers - 1;
  n->shape.activation = (tt_activation)n->activation;
  if (tt_model_lay_out(&n->shape, out))
    return TT_FAIL(DATA, "%s: sizes of '%s' are not possible" TT_DAMAGED, tt_h5_file_name(r),
                   group);
  return TT_OK;
}

tt_err tt_model_check_floor(tt_h5_reader *r, const char *group, float floor)
{
  if (isfinite(floor) && floor >= 0.0f) return TT_OK;
  return TT_FAIL(DATA, "%s: 'variance_floor' of '%s' is %g" TT_DAMAGED, tt_h5_file_name(r), group,
                 (double)floor);
}
