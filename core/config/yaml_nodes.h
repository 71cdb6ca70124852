/* yaml_nodes.h — YAML text to nodes with places, and nodes to fields. Private to
 * src/spec/config*.c. */
#ifndef TT_CONFIG_LOAD_H
#define TT_CONFIG_LOAD_H
#include "core/config/config_internal.h"

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
/* The text of a scalar. */
const char *tt_scalar_text(const yaml_node_t *node);
/* What a literal of the file is, and what a node is called in a message. */
tt_literal tt_literal_of(const yaml_node_t *node);
const char *tt_node_text(const yaml_node_t *node);
/* 1 and an error noted if `before` says that it was given before; --set may repeat. */
int tt_is_repeated(tt_reader *r, const tt_where *before, const tt_where *now, const char *path);
/* A key that is text without NUL; else an error is noted. */
int tt_key_is_text(tt_reader *r, const yaml_node_t *key);

/* `sweep:` of an ensemble, a mapping; and one swept option of it. What is wrong is noted in `r`.
 * Errors: MEM. */
tt_err tt_sweeps_read(tt_reader *r, yaml_document_t *doc, int64_t element, yaml_node_t *node);
tt_err tt_sweep_read(tt_reader *r, yaml_document_t *doc, int64_t element, const tt_where *key,
                     const char *name, yaml_node_t *node);

/* Parse and store; what is wrong is noted in `r`. `key` is where the name of the option stands.
 * Errors: MEM. */
tt_err tt_slot_assign(tt_reader *r, yaml_document_t *doc, const tt_slot *s, const tt_where *key,
                      yaml_node_t *node);
#endif
