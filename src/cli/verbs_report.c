/* verbs_report.c — see verbs.h: what runs and campaigns have done. */
#include "src/campaign/report/campaign_report.h"
#include "src/campaign/state/file_names.h"
#include "src/cli/cli_args.h"
#include "src/report/page/run_page.h"
#include "src/report/run_status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folder of the file of a campaign is easily given in place of its directory. */
tt_err tt_verb_status(const tt_cli_args *args)
{
  const char *directory = args->file[0];
  char inside[TT_PATH_MAX];
  if (tt_campaign_is_local(directory)) return tt_campaign_status_local(directory, args->json);
  tt_err e = tt_run_status_print_local(directory, args->json);
  tt_path_join(directory, "campaign", inside); /* the default of campaign.directory */
  if (e != TT_E_NOINPUT || !tt_campaign_is_local(inside)) return e;
  return TT_FAIL(NOINPUT, "%s; did you mean '%s'?", tt_err_last(), inside);
}

/* Each picture is one write: clear the screen, then the status. */
tt_err tt_verb_watch(const tt_cli_args *args)
{
  const char *term = getenv("TERM");
  int live = !args->once && isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
  for (int running = 1; running;) {
    TT_TRY(tt_run_is_running_local(args->file[0], &running));
    if (live) printf("\033[H\033[2J%s\n\n", args->file[0]);
    TT_TRY(tt_verb_status(args));
    if (fflush(stdout) || !live) break;
    if (running) sleep(1);
  }
  return TT_OK;
}

tt_err tt_verb_report(const tt_cli_args *args)
{
  char file[TT_PATH_MAX];
  const char *src = args->file[0], *dst = args->output ? args->output : src;
  int campaign = tt_campaign_is_local(src);
  if (args->files > 1 && !campaign)
    return TT_FAIL(USAGE, "%s is not a campaign: give one directory of a run", src);
  tt_path_join(dst, "report.html", file);
  if (args->output) TT_TRY(tt_directory_create(dst));
  if (campaign)
    return tt_campaign_page_write_local(args->file, args->files, file, args->force, args->json);
  return tt_run_page_write_local(src, file, args->force, args->json);
}
