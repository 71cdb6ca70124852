/* plan_front.c — see plan_front.h. */
#include "src/tools/plan_front.h"

#include "core/base/text.h"

#include <inttypes.h>

void tt_plan_front_print(const tt_front *f, FILE *out)
{
  char text[TT_FRONT_LAYER_TEXT];
  if (!f->layers) return;
  fprintf(out, "front      inputs %s\n", tt_front_shape_text(f, f->channels, f->size, text));
  for (int l = 0; l < f->layers; l++) {
    const tt_front_layer *layer = &f->layer[l];
    int64_t params = tt_front_layer_params(layer);
    fprintf(out, "           %s", tt_front_layer_text(f, l, text));
    if (params) fprintf(out, ", %" PRId64 " parameter%s", params, tt_plural(params));
    if (layer->skip == TT_FRONT_SKIP_INPUTS) fprintf(out, ", plus the inputs");
    if (layer->skip >= 0)
      fprintf(out, ", plus the result of %s", tt_front_layer_text(f, layer->skip, text));
    fputc('\n', out);
  }
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
    tt_json_set(&row, "parameters", json_integer(tt_front_layer_params(layer)));
    json_array_append_new(all, row);
  }
  return all;
}
