/* row.c — the text of a row of model.front; see front_internal.h. */
#include "core/front/front_internal.h"

#include "core/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct kind_row {
  const char *words;
  int numbers;
  unsigned options;
  const char *form;
} kind_row;
static const kind_row kinds[TT_FRONT_KIND_COUNT] = {
#define X(name, words, numbers, options, form, meaning) {words, numbers, options, form},
    TT_FRONT_KINDS(X)
#undef X
};

typedef enum value_kind { VALUE_nothing, VALUE_number, VALUE_activation } value_kind;
static const struct {
  const char *name;
  value_kind value;
  int32_t by_default;
} options[TT_FRONT_OPTION_COUNT] = {
#define X(name, value, by_default) {#name, VALUE_##value, by_default},
    TT_FRONT_OPTIONS(X)
#undef X
};

/* The next word of a row; "" at its end. */
static void next_word(const char **cursor, char word[TT_FRONT_TEXT])
{
  *cursor += strspn(*cursor, " ");
  size_t n = strcspn(*cursor, " ");
  memcpy(word, *cursor, n);
  word[n] = '\0';
  *cursor += n;
}

/* A whole number without sign, up to TT_FRONT_MOST. */
static int read_number(const char *word, int32_t least, int32_t *out)
{
  size_t digits = strspn(word, "0123456789");
  if (!digits || word[digits] || digits > 8 || (digits > 1 && *word == '0')) return 0;
  long value = strtol(word, NULL, 10);
  *out = (int32_t)value;
  return value >= least && value <= TT_FRONT_MOST;
}

/* The row of the table whose words begin the text; *cursor moves behind them. -1: none. */
static int find_kind(const char **cursor)
{
  for (int k = 0; k < TT_FRONT_KIND_COUNT; k++) {
    size_t n = strlen(kinds[k].words);
    if (strncmp(*cursor, kinds[k].words, n) != 0 || ((*cursor)[n] && (*cursor)[n] != ' ')) continue;
    *cursor += n;
    return k;
  }
  return -1;
}

int tt_front_takes_columns(int64_t rows, const char *const *row)
{
  const char *text = rows ? row[0] + strspn(row[0], " ") : "";
  return find_kind(&text) == TT_FRONT_ple;
}

static int unknown_kind(const char *text, int64_t number, tt_front_fault *fault)
{
  char list[TT_FRONT_REASON / 2] = "", word[TT_FRONT_TEXT];
  const char *cursor = text;
  next_word(&cursor, word);
  tt_suggestion near = {.word = word};
  for (int k = 0; k < TT_FRONT_KIND_COUNT; k++) {
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", k ? ", " : "", kinds[k].words);
    tt_suggestion_consider(&near, kinds[k].words);
  }
  return tt_front_reject(fault, number, "'%.40s' is not a layer, one of %s%s%.20s%s", text, list,
                         *near.best ? "; did you mean '" : "", near.best, *near.best ? "'?" : "");
}

/* The name of an activation; "none" is identity. */
static int read_activation(const char *word, int32_t *out)
{
  if (strcmp(word, "none") == 0) return *out = TT_ACT_identity, 1;
  for (int k = 0; k < TT_ACT_COUNT; k++)
    if (strcmp(word, tt_front_activation_name[k]) == 0) return *out = k, 1;
  return 0;
}

/* The value of option o. */
static int read_value(const char **cursor, int o, int32_t *out, char word[TT_FRONT_TEXT])
{
  if (options[o].value == VALUE_nothing) return *out = 1;
  next_word(cursor, word);
  if (options[o].value == VALUE_activation) return read_activation(word, out);
  return read_number(word, o == TT_FRONT_OPTION_pad ? 0 : 1, out);
}

static int read_options(const char **cursor, const kind_row *kind, int64_t number,
                        tt_front_row *out, tt_front_fault *fault)
{
  char word[TT_FRONT_TEXT], value[TT_FRONT_TEXT];
  for (next_word(cursor, word); *word; next_word(cursor, word)) {
    int o = 0;
    while (o < TT_FRONT_OPTION_COUNT && strcmp(word, options[o].name) != 0) o++;
    if (o == TT_FRONT_OPTION_COUNT || !(kind->options & 1u << o))
      return tt_front_reject(fault, number, "'%.40s' does not belong here; write %s", word,
                             kind->form);
    if (out->given[o]) return tt_front_reject(fault, number, "%s is given twice", word);
    if (!read_value(cursor, o, &out->option[o], value))
      return tt_front_reject(fault, number, "'%.40s' is not a possible %s; write %s", value,
                             options[o].name, kind->form);
    out->given[o] = 1;
  }
  return 1;
}

/* The name of a pool. */
static int read_pool(const char **cursor, int64_t number, tt_front_row *out, tt_front_fault *fault)
{
  char word[TT_FRONT_TEXT], list[TT_FRONT_REASON / 2] = "";
  next_word(cursor, word);
  for (int k = 0; k < TT_POOLING_COUNT; k++) {
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", k ? ", " : "", tt_pooling_name[k]);
    out->pool = (tt_pooling)k;
    if (strcmp(word, tt_pooling_name[k]) == 0) return 1;
  }
  return tt_front_reject(fault, number, "'%.40s' is not a pool; pools are %s", word, list);
}

tt_front_row tt_front_plain_row(tt_front_kind kind, int32_t first, int32_t second)
{
  tt_front_row row = {.kind = kind, .number = {first, second}};
  for (int o = 0; o < TT_FRONT_OPTION_COUNT; o++) row.option[o] = options[o].by_default;
  return row;
}

int tt_front_row_parse(const char *text, int64_t number, tt_front_row *out, tt_front_fault *fault)
{
  char word[TT_FRONT_TEXT];
  if (strlen(text) >= TT_FRONT_TEXT)
    return tt_front_reject(fault, number, "is longer than %d characters", TT_FRONT_TEXT - 1);
  const char *cursor = text + strspn(text, " ");
  int k = find_kind(&cursor);
  if (k < 0) return unknown_kind(text, number, fault);
  *out = tt_front_plain_row((tt_front_kind)k, 0, 0);
  if (k == TT_FRONT_pool && !read_pool(&cursor, number, out, fault)) return 0;
  for (int i = 0; i < kinds[k].numbers; i++) {
    next_word(&cursor, word);
    if (!read_number(word, 1, &out->number[i]))
      return tt_front_reject(fault, number, "'%.40s' is not a number of at least 1; write %s", word,
                             kinds[k].form);
  }
  return read_options(&cursor, &kinds[k], number, out, fault);
}
