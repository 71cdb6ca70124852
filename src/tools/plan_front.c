/* plan_front.c — see plan_internal.h. */
#include "src/tools/plan_internal.h"

#include "core/base/text.h"

#include <inttypes.h>

/* Layer l, by its number from 1; -1: the inputs. */
static void print_source(int l, FILE *out)
{
  if (l < 0)
    fprintf(out, "the inputs");
  else
    fprintf(out, "layer %d", l + 1);
}

/* As PyTorch counts them, without running values. */
static int64_t count_params(const tt_front_layer *l)
{
  return tt_front_layer_params(l) - tt_front_running(l);
}

static void print_layer(const tt_front *f, int l, FILE *out)
{
  char text[TT_FRONT_LAYER_TEXT];
  const tt_front_layer *layer = &f->layer[l];
  int64_t params = count_params(layer);
  fprintf(out, "%9d  %s", l + 1, tt_front_layer_text(f, l, text));
  if (params) fprintf(out, ", %" PRId64 " parameter%s", params, tt_plural(params));
  if (layer->projects) fprintf(out, ", projection");
  if (layer->from != l - 1) {
    fprintf(out, " of ");
    print_source(layer->from, out);
  }
  if (layer->skip != TT_FRONT_NO_SKIP) {
    fprintf(out, ", plus ");
    print_source(layer->skip, out);
  }
  if (layer->activates_sum) fprintf(out, ", then %s", tt_choice_activation[layer->activation]);
  fputc('\n', out);
}

void tt_plan_front_print(const tt_front *f, FILE *out)
{
  char text[TT_FRONT_LAYER_TEXT];
  if (!f->layers) return;
  fprintf(out, "front      inputs %s\n", tt_front_shape_text(f, f->channels, f->size, text));
  for (int l = 0; l < f->layers; l++) print_layer(f, l, out);
}

json_t *tt_plan_front_to_json(const tt_front *f)
{
  char text[TT_FRONT_LAYER_TEXT];
  json_t *all = json_array();
  for (int l = 0; l < f->layers; l++) {
    const tt_front_layer *layer = &f->layer[l];
    json_t *row = json_object();
    tt_json_set(&row, "layer", tt_json_text(tt_front_layer_text(f, l, text)));
    tt_json_set(&row, "values", json_integer(tt_front_values(layer)));
    tt_json_set(&row, "parameters", json_integer(count_params(layer)));
    json_array_append_new(all, row);
  }
  return all;
}
