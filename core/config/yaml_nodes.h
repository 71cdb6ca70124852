/* yaml_nodes.h — YAML text to nodes with places, and nodes to fields. Private to
 * core/config. */
#ifndef TT_YAML_NODES_H
#define TT_YAML_NODES_H
#include "core/config/config_internal.h"

#include <yaml.h>

/* Load one document; what is wrong with the text is noted in `r`.
 *   doc   of the caller (yaml_document_delete) if *good; it may be empty: no root node
 * Errors: MEM. */
tt_err tt_yaml_load(tt_config_reader *r, const char *text, size_t bytes, yaml_document_t *doc,
                    int *good);
/* A plain scalar without text: `key:`. */
int tt_node_is_empty(const yaml_node_t *node);
tt_source_location tt_node_location(const tt_config_reader *r, const yaml_node_t *node);

/* One field about to be written. */
typedef struct tt_option_ref {
  const tt_option *option;
  void *record;
  tt_source_location *where;
  int64_t element; /* of `ensembles`, -1 for the rest */
} tt_option_ref;
tt_option_ref tt_option_ref_job(tt_config_reader *r, int i);
tt_option_ref tt_option_ref_ensemble(tt_config_reader *r, int64_t element, int i);
/* The text of a scalar. */
const char *tt_scalar_text(const yaml_node_t *node);
/* What a literal of the file is, and what a node is called in a message. */
tt_yaml_scalar tt_yaml_scalar_of(const yaml_node_t *node);
const char *tt_node_kind_text(const yaml_node_t *node);
/* 1 and an error noted if `before` says that it was given before; --set may repeat. */
int tt_reject_repeated(tt_config_reader *r, const tt_source_location *before,
                       const tt_source_location *now, const char *path);
/* A key that is text without NUL; else an error is noted. */
int tt_key_check(tt_config_reader *r, const yaml_node_t *key);

/* `sweep:` of an ensemble, a mapping; and one swept option of it. What is wrong is noted in `r`.
 * Errors: MEM. */
tt_err tt_sweeps_read(tt_config_reader *r, yaml_document_t *doc, int64_t element,
                      yaml_node_t *node);
tt_err tt_sweep_read(tt_config_reader *r, yaml_document_t *doc, int64_t element,
                     const tt_source_location *key, const char *name, yaml_node_t *node);

/* Parse and store; what is wrong is noted in `r`. `key` is where the name of the option stands.
 * Errors: MEM. */
tt_err tt_option_assign(tt_config_reader *r, yaml_document_t *doc, const tt_option_ref *s,
                        const tt_source_location *key, yaml_node_t *node);
#endif
