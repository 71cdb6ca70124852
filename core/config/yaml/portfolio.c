/* portfolio.c — `model: auto`: its recipes, as nodes of a list `networks`; see yaml_nodes.h. */
#include "core/config/portfolio.h"

#include "core/config/yaml/yaml_nodes.h"

#include <string.h>

static const char recipes[] = "["
#define X(label, options) "{label: " #label ", " options "}, "
    TT_RECIPES(X)
#undef X
        "]";

yaml_node_t *tt_mapping_value(yaml_document_t *doc, const yaml_node_t *node, const char *key)
{
  if (!node || node->type != YAML_MAPPING_NODE) return NULL;
  const yaml_node_pair_t *p = node->data.mapping.pairs.start, *end = node->data.mapping.pairs.top;
  for (; p < end; p++) {
    const yaml_node_t *name = yaml_document_get_node(doc, p->key);
    if (name->type == YAML_SCALAR_NODE && strcmp(tt_scalar_text(name), key) == 0)
      return yaml_document_get_node(doc, p->value);
  }
  return NULL;
}

int tt_node_is_auto(const char *section, const yaml_node_t *node)
{
  return strcmp(section, "model") == 0 && node->type == YAML_SCALAR_NODE &&
         strcmp(tt_scalar_text(node), "auto") == 0;
}

tt_err tt_portfolio_load(tt_config_reader *r, tt_portfolio *out)
{
  int good = 0;
  TT_TRY(tt_yaml_load(r, recipes, sizeof recipes - 1, &out->doc, &good));
  return good ? TT_OK : TT_FAIL(INTERNAL, "the recipes of model: auto cannot be read");
}
