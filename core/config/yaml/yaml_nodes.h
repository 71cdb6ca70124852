/* yaml_nodes.h — YAML text to nodes with locations, and nodes to fields. Private to core/config. */
#ifndef TT_YAML_NODES_H
#define TT_YAML_NODES_H
#include "core/config/config_internal.h"

#include <yaml.h>

/* Load one document; wrong input is added to the errors of `r`.
 *   doc   owned by the caller (yaml_document_delete) if *good; an empty document has no root node
 * Errors: MEM. */
tt_err tt_yaml_load(tt_config_reader *r, const char *text, size_t bytes, yaml_document_t *doc,
                    int *good);
/* 1 for a plain scalar without text: `key:`. */
int tt_node_is_empty(const yaml_node_t *node);
tt_source_location tt_node_location(const tt_config_reader *r, const yaml_node_t *node);

/* The value of a key; NULL: `node` is no mapping, or has no such key. */
yaml_node_t *tt_mapping_value(yaml_document_t *doc, const yaml_node_t *node, const char *key);
/* 1 for `model: auto`, the portfolio of recipes. */
int tt_node_is_auto(const char *section, const yaml_node_t *node);

/* The recipes of `model: auto` (core/config/portfolio.h) as a list `networks`. */
typedef struct tt_portfolio {
  yaml_document_t doc; /* its root is the list */
  int trials;          /* 1: two elements that all trials have in common, then the trials */
} tt_portfolio;
/* Owner of out->doc: the caller, yaml_document_delete. Errors: MEM, INTERNAL. */
tt_err tt_portfolio_load(tt_config_reader *r, tt_portfolio *out);

/* `search.space`: a mapping of sections of options, each with the way in which it is drawn; wrong
 * input is added to the errors of `r`. Owner of r->axis: the caller, tt_search_space_free.
 * Errors: MEM. */
tt_err tt_search_space_read(tt_config_reader *r, yaml_document_t *doc, yaml_node_t *node);
/* The trials of `search`; recipes alone after errors of it. Owner of out->doc as above. */
tt_err tt_search_load(tt_config_reader *r, tt_portfolio *out);
/* Budget and folds of the preset, where the job does not name them. */
void tt_search_resolve(tt_config *c);

/* A field of a configuration. */
typedef struct tt_option_ref {
  const tt_option *option;
  void *record;
  tt_source_location *where;
  int64_t element; /* of `ensembles`, for messages; -1 for the rest */
} tt_option_ref;
tt_option_ref tt_option_ref_job(tt_config_reader *r, int i);
tt_option_ref tt_option_ref_ensemble(tt_config_reader *r, int64_t element, int i);
/* The text of a scalar. */
const char *tt_scalar_text(const yaml_node_t *node);
/* A scalar node as tt_yaml_scalar. */
tt_yaml_scalar tt_yaml_scalar_of(const yaml_node_t *node);
/* "a list", "a mapping" or "a single value", for messages. */
const char *tt_node_kind_text(const yaml_node_t *node);
/* 1 and an error in `r` if the file gives an option twice; --set may repeat options, and a
 * network those of its ensemble. */
int tt_reject_repeated(tt_config_reader *r, const tt_source_location *before,
                       const tt_source_location *now, const char *path);
/* 1 if the key is text without NUL; else 0 and an error in `r`. */
int tt_key_check(tt_config_reader *r, const yaml_node_t *key);

/* Read `sweep:` of an ensemble, a mapping. Wrong input is added to the errors of `r`.
 * Errors: MEM. */
tt_err tt_sweeps_read(tt_config_reader *r, yaml_document_t *doc, int64_t element,
                      yaml_node_t *node);

/* Parse element i of a list; a wrong element is added to the errors of `r` as "path[i]: ...".
 * Returns 1 and *value, or 0. */
int tt_element_parse(tt_config_reader *r, const tt_option *o, const char *path,
                     const yaml_node_t *node, int64_t i, tt_value *value);

/* Read a key and its value at the top level of the job (element -1) or of an element of
 * cfg->ensemble.
 *   network  1: the element stands for one of several networks
 * Errors: MEM. */
tt_err tt_pair_read(tt_config_reader *r, yaml_document_t *doc, int64_t element, int network,
                    const yaml_node_t *key, yaml_node_t *node);

/* Parse and store an option; wrong input is added to the errors of `r`. `key` is the location of
 * its name. Errors: MEM. */
tt_err tt_option_assign(tt_config_reader *r, yaml_document_t *doc, const tt_option_ref *s,
                        const tt_source_location *key, yaml_node_t *node);
#endif
