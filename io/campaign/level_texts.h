/* level_texts.h — the texts of levels in campaign.h5 and queries.h5, where inputs are numbers. For
 * the files of io/campaign only. */
#ifndef TT_LEVEL_TEXTS_H
#define TT_LEVEL_TEXTS_H
#include "core/columns/net_inputs.h"
#include "io/hdf5/schema.h"

/* Input level_column[i] with the value level[i] has the text level_name[i]. */
typedef struct tt_level_texts {
  int64_t count;
  int32_t *column;   /* [count] from 0 */
  double *value;     /* [count] */
  const char **text; /* [count] borrowed */
} tt_level_texts;

/* Local. net NULL: no levels. Owner: the caller, tt_level_texts_free, also after an error.
 * Errors: MEM. */
tt_err tt_level_texts_create(const tt_net_inputs *net, tt_level_texts *out);
void tt_level_texts_free(tt_level_texts *t);

/* Bytes of what is written, to reserve the space of a file. */
int64_t tt_level_texts_bytes(const tt_level_texts *t);
/* Collective. Nothing is written if no level is a text. */
void tt_level_texts_write(tt_schema *s, const tt_level_texts *t);
#endif
