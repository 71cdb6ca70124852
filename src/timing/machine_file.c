/* machine_file.c — see machine_file.h. */
#include "src/timing/machine_file.h"

#include "core/base/json.h"
#include "core/base/mem.h"
#include "io/files/files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT "tutti-machine-1.0"

tt_err tt_machine_path(char *path, int64_t capacity)
{
  const char *file = getenv("TUTTI_MACHINE"), *cache = getenv("XDG_CACHE_HOME");
  const char *home = getenv("HOME");
  int n;
  if (file && *file)
    n = snprintf(path, (size_t)capacity, "%s", file);
  else if (cache && *cache)
    n = snprintf(path, (size_t)capacity, "%s/tutti/machine.json", cache);
  else if (home && *home)
    n = snprintf(path, (size_t)capacity, "%s/.cache/tutti/machine.json", home);
  else
    return TT_FAIL(CANTCREAT, "no place for the constants of this machine: set TUTTI_MACHINE to a "
                              "file, because HOME and XDG_CACHE_HOME are not set");
  return n < capacity ? TT_OK : TT_FAIL(CANTCREAT, "the path of the machine file is too long");
}

static json_t *numbers(int64_t n, const char *const *name, const double *value)
{
  json_t *all = json_object();
  for (int64_t i = 0; i < n; i++) tt_json_set(&all, name[i], tt_json_number(value[i]));
  return all;
}

static const char *const term_name[] = {
#define X(name, what) #name,
    TT_STEP_COSTS(X)
#undef X
};

static json_t *to_json(const tt_machine *m)
{
  json_t *all = json_object();
  tt_json_set(&all, "format", tt_json_text(FORMAT));
  tt_json_set(&all, "host", tt_json_text(m->host));
  tt_json_set(&all, "processor", tt_json_text(m->processor));
  tt_json_set(&all, "simd", tt_json_text(m->simd));
  tt_json_set(&all, "date", tt_json_text(m->date));
  tt_json_set(&all, "threads", json_integer(m->threads));
  tt_json_set(&all, "error", tt_json_number(m->error));
  tt_json_set(&all, "write_rate", tt_json_number(m->write_rate));
  tt_json_set(&all, "directory", tt_json_text(m->directory));
  tt_json_set(&all, "seconds", numbers(TT_STEP_COST_COUNT, term_name, m->seconds.term));
  tt_json_set(&all, "activation",
              numbers(TT_ACT_COUNT, tt_choice_activation, m->seconds.activation));
  tt_json_set(&all, "optimizer", numbers(TT_OPT_COUNT, tt_choice_optimizer, m->seconds.optimizer));
  tt_json_set(&all, "dropout", tt_json_number(m->seconds.dropout));
  tt_json_set(&all, "layer_norm", tt_json_number(m->seconds.layer_norm));
  return all;
}

static int read_number(const json_t *src, const char *name, double *out)
{
  const json_t *v = json_object_get(src, name);
  *out = json_number_value(v);
  return json_is_number(v) && isfinite(*out);
}

static int read_numbers(const json_t *src, const char *key, int64_t n, const char *const *name,
                        double *out)
{
  int ok = 1;
  for (int64_t i = 0; i < n; i++) ok &= read_number(json_object_get(src, key), name[i], &out[i]);
  return ok;
}

static int read_text(const json_t *src, const char *name, char *out, size_t capacity)
{
  const char *text = json_string_value(json_object_get(src, name));
  snprintf(out, capacity, "%.*s", (int)capacity - 1, text ? text : "");
  return text != NULL;
}

static int from_json(const json_t *all, tt_machine *m)
{
  char format[32];
  double threads;
  int ok = read_text(all, "format", format, sizeof format) && !strcmp(format, FORMAT);
  ok &= read_text(all, "host", m->host, sizeof m->host);
  ok &= read_text(all, "processor", m->processor, sizeof m->processor);
  ok &= read_text(all, "simd", m->simd, sizeof m->simd);
  ok &= read_text(all, "date", m->date, sizeof m->date);
  ok &= read_text(all, "directory", m->directory, sizeof m->directory);
  ok &= read_number(all, "threads", &threads) && threads >= 1.0 && threads < 1e6;
  ok &= read_number(all, "error", &m->error) && read_number(all, "write_rate", &m->write_rate);
  ok &= read_numbers(all, "seconds", TT_STEP_COST_COUNT, term_name, m->seconds.term);
  ok &= read_numbers(all, "activation", TT_ACT_COUNT, tt_choice_activation, m->seconds.activation);
  ok &= read_numbers(all, "optimizer", TT_OPT_COUNT, tt_choice_optimizer, m->seconds.optimizer);
  ok &= read_number(all, "dropout", &m->seconds.dropout);
  ok &= read_number(all, "layer_norm", &m->seconds.layer_norm);
  ok = ok && m->write_rate > 0.0;
  if (ok) m->threads = (int)threads;
  return ok;
}

tt_err tt_machine_read(const char *path, tt_machine *out)
{
  json_t *all = NULL;
  tt_machine m = {.threads = 1};
  TT_TRY(tt_json_read_file(path, &all));
  int ok = from_json(all, &m);
  json_decref(all);
  if (!ok)
    return TT_FAIL(DATA, "%s is no file of tutti doctor --calibrate of this version: run it again",
                   path);
  *out = m;
  return TT_OK;
}

tt_err tt_machine_write(const char *path, const tt_machine *m)
{
  char folder[TT_PATH_MAX], *text = NULL;
  tt_file_dirname_local(path, folder);
  TT_TRY(tt_directory_create(folder));
  TT_TRY(tt_json_format(to_json(m), 2, &text));
  tt_err e = tt_file_write_atomic_local(path, text);
  tt_free(text);
  return e;
}
