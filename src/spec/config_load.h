/* config_load.h — YAML text to nodes with places, and nodes to fields. Private to
 * src/spec/config*.c. */
#ifndef TT_CONFIG_LOAD_H
#define TT_CONFIG_LOAD_H
#include "spec/config_parts.h"

#include <yaml.h>

/* Load one document; what is wrong with the text is noted in `r`.
 *   doc   of the caller (yaml_document_delete) if *good; it may be empty: no root node
 * Errors: MEM. */
tt_err tt_config_load(tt_reader *r, const char *text, size_t bytes, yaml_document_t *doc,
                      int *good);
/* A plain scalar without text: `key:`. */
int tt_is_nothing(const yaml_node_t *node);
tt_where tt_place(const tt_reader *r, const yaml_node_t *node);

/* One field about to be written. */
typedef struct tt_slot {
  const tt_option *option;
  void *record;
  tt_where *where;
  int64_t element; /* of `ensembles`, -1 for the rest */
} tt_slot;
tt_slot tt_slot_job(tt_reader *r, int i);
tt_slot tt_slot_own(tt_reader *r, int64_t element, int i);
/* Parse and store; what is wrong is noted in `r`. `key` is where the name of the option stands.
 * Errors: MEM. */
tt_err tt_slot_assign(tt_reader *r, yaml_document_t *doc, const tt_slot *s, const tt_where *key,
                      yaml_node_t *node);
#endif
