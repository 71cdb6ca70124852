/* completion.c — `tutti completion`: scripts with which bash and zsh complete a command line, from
 * the tables of verbs and options. */
#include "core/base/mem.h"
#include "core/config/config.h"
#include "src/cli/cli_args.h"

#include <stdio.h>
#include <string.h>

typedef enum shell { BASH, ZSH } shell;

/* Both shells: find the verb, a path of words such as "tutti campaign run", before the cursor. */
static void put_paths(const char *family, const tt_verb *verbs)
{
  for (const tt_verb *v = verbs; v->name; v++) {
    char path[128];
    snprintf(path, sizeof path, "%.63s %.63s", family, v->name);
    printf("%s\"%s\"", v == verbs && !strchr(family, ' ') ? "" : " | ", path);
    if (v->verbs) put_paths(path, v->verbs);
  }
}

/* A text in single quotes; zsh separates name and description by a colon. */
static void put_quoted(const char *text)
{
  for (; *text; text++) {
    if (*text == '\'')
      fputs("'\\''", stdout);
    else if (*text == ':')
      fputs("\\:", stdout);
    else
      putchar(*text);
  }
}

static void put_item(shell kind, const char *prefix, const char *name, const char *help)
{
  if (kind == BASH) {
    printf(" %s%s", prefix, name);
    return;
  }
  printf(" '%s%s:", prefix, name);
  put_quoted(help);
  putchar('\'');
}

static void put_options(shell kind, const tt_verb *verb)
{
  for (const int8_t *id = verb->options; *id; id++) {
    tt_cli_option_text o = tt_cli_describe_option(*id);
    put_item(kind, "--", o.name, o.help);
  }
  put_item(kind, "--", "help", "print a short help text");
}

/* A branch for each verb and family: the verbs, or the options. */
static void put_cases(shell kind, const char *family, const tt_verb *verbs)
{
  const char *list = kind == BASH ? "=\"" : "=(", *end = kind == BASH ? "\"" : " )";
  printf("  \"%s\") verbs%s", family, list);
  for (const tt_verb *v = verbs; v->name; v++) put_item(kind, "", v->name, v->summary);
  printf("%s ;;\n", end);
  for (const tt_verb *v = verbs; v->name; v++) {
    char path[128];
    snprintf(path, sizeof path, "%.63s %.63s", family, v->name);
    if (v->verbs) {
      put_cases(kind, path, v->verbs);
      continue;
    }
    printf("  \"%s\") options%s", path, list);
    put_options(kind, v);
    printf("%s ;;\n", end);
  }
}

/* Names of the options of a job file, "train.epochs", from the text that explains them: they stand
 * alone in lines with two spaces. */
static tt_err put_settings(void)
{
  char *text = NULL;
  TT_TRY(tt_config_options_text(0, &text));
  for (char *line = text; line;) {
    char *next = strchr(line, '\n');
    if (next) *next = 0;
    if (!strncmp(line, "  ", 2) && line[2] != ' ' && !strchr(line + 2, ' ') && strchr(line, '.'))
      printf(" %s=", line + 2);
    line = next ? next + 1 : NULL;
  }
  tt_free(text);
  return TT_OK;
}

static tt_err put_bash(const tt_verb *verbs)
{
  fputs("# tutti: completion for bash, made by tutti completion bash\n"
        "_tutti() {\n"
        "  local word verb=tutti verbs= options= i cur=${COMP_WORDS[COMP_CWORD]}\n"
        "  COMPREPLY=()\n"
        "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "    word=${COMP_WORDS[i]}\n"
        "    case \"$verb $word\" in\n"
        "    ",
        stdout);
  put_paths("tutti", verbs);
  fputs(") verb=\"$verb $word\" ;;\n"
        "    esac\n"
        "  done\n"
        "  case $verb in\n",
        stdout);
  put_cases(BASH, "tutti", verbs);
  fputs("  esac\n"
        "  case ${COMP_WORDS[COMP_CWORD - 1]} in\n"
        "  -s | --set)\n"
        "    type compopt >/dev/null 2>&1 && compopt -o nospace 2>/dev/null\n"
        "    verbs=\"",
        stdout);
  TT_TRY(put_settings());
  fputs("\" ;;\n"
        "  esac\n"
        "  [[ $cur == -* ]] && verbs=$options\n"
        "  COMPREPLY=($(compgen -W \"$verbs\" -- \"$cur\"))\n"
        "}\n"
        "complete -o default -F _tutti tutti\n",
        stdout);
  return TT_OK;
}

static tt_err put_zsh(const tt_verb *verbs)
{
  fputs("#compdef tutti\n"
        "# tutti: completion for zsh, made by tutti completion zsh\n"
        "_tutti() {\n"
        "  local verb=tutti i\n"
        "  local -a verbs options settings\n"
        "  for ((i = 2; i < CURRENT; i++)); do\n"
        "    case \"$verb ${words[i]}\" in\n"
        "    ",
        stdout);
  put_paths("tutti", verbs);
  fputs(") verb=\"$verb ${words[i]}\" ;;\n"
        "    esac\n"
        "  done\n"
        "  case $verb in\n",
        stdout);
  put_cases(ZSH, "tutti", verbs);
  fputs("  esac\n"
        "  if [[ ${words[CURRENT-1]} == (-s|--set) ]]; then\n"
        "    settings=(",
        stdout);
  TT_TRY(put_settings());
  fputs(" )\n"
        "    compadd -S '' -- $settings\n"
        "  elif [[ $PREFIX == -* ]]; then\n"
        "    _describe option options\n"
        "  elif (( $#verbs )); then\n"
        "    _describe verb verbs\n"
        "  else\n"
        "    _files\n"
        "  fi\n"
        "}\n"
        "if [[ $funcstack[1] == _tutti ]]; then _tutti \"$@\"; else compdef _tutti tutti; fi\n",
        stdout);
  return TT_OK;
}

tt_err tt_verb_completion(const tt_cli_args *args)
{
  if (!strcmp(args->file[0], "bash")) return put_bash(args->verbs);
  if (!strcmp(args->file[0], "zsh")) return put_zsh(args->verbs);
  return TT_FAIL(USAGE, "completion of '%s' is not possible; choose bash or zsh", args->file[0]);
}
