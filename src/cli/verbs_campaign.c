/* verbs_campaign.c — tutti campaign run|step|...: active learning. */
#include "core/base/log.h"
#include "core/config/config.h"
#include "io/files/files.h"
#include "src/campaign/driver/campaign.h"
#include "src/campaign/driver/init.h"
#include "src/campaign/label/oracle.h"
#include "src/campaign/points/requests.h"
#include "src/campaign/state/file_names.h"
#include "src/cli/cli_args.h"
#include "src/host/status_file.h"
#include "src/host/stop_request.h"

#include <string.h>
#include <unistd.h>

static tt_err run_rounds(const tt_cli_args *args, int64_t rounds, const char *replay)
{
  tt_campaign_options o = {.job = tt_cli_job(args),
                           .rounds = rounds,
                           .replay = replay,
                           .from = args->from,
                           .any_device = args->allow_different_device};
  tt_stop_install_handlers_local(); /* before MPI_Init, which may take long: a signal is sent only
                                       once */
  TT_TRY(tt_cli_begin(args, 0));
  return tt_campaign_run(tt_world, &o);
}

tt_err tt_verb_campaign_run(const tt_cli_args *args) { return run_rounds(args, 0, NULL); }
tt_err tt_verb_campaign_step(const tt_cli_args *args) { return run_rounds(args, 1, NULL); }
tt_err tt_verb_campaign_replay(const tt_cli_args *args)
{
  return run_rounds(args, 0, args->file[1]);
}

tt_err tt_verb_campaign_init(const tt_cli_args *args)
{
  return tt_campaign_init_local(args->file[0], args->data, args->pool, args->inputs, args->targets);
}

tt_err tt_verb_campaign_check(const tt_cli_args *args)
{
  return tt_points_check_local(args->file[0]);
}

tt_err tt_verb_ask(const tt_cli_args *args)
{
  tt_ask_options o = {.directory = args->file[0],
                      .count = args->points,
                      .lease = 7200.0,
                      .who = args->who,
                      .hdf5 = args->hdf5};
  if (args->lease) TT_TRY(tt_config_parse_duration("--lease", args->lease, &o.lease));
  return tt_ask_local(&o);
}

tt_err tt_verb_tell(const tt_cli_args *args)
{
  tt_table_format format;
  TT_TRY(tt_cli_format(args, &format));
  const tt_tell_options o = {.directory = args->file[0],
                             .file = args->file[1],
                             .format = &format,
                             .who = args->who,
                             .with_inputs = args->with_inputs,
                             .replace = args->replace};
  return tt_tell_local(&o);
}

tt_err tt_verb_campaign_pause(const tt_cli_args *args)
{
  char path[TT_PATH_MAX];
  tt_status_file status;
  tt_path_join(args->file[0], "journal.jsonl", path);
  if (access(path, F_OK))
    return TT_FAIL(NOINPUT, "%s: there is no campaign in this directory (no journal.jsonl)",
                   args->file[0]);
  if (!tt_status_file_read_local(args->file[0], &status) && !strcmp(status.status.state, "done")) {
    tt_log_root(TT_LOG_INFO, "%s: the campaign has ended; there is nothing to pause",
                args->file[0]);
    return TT_OK;
  }
  tt_path_join(args->file[0], "STOP", path);
  return tt_file_write_atomic_local(path, "requested by tutti campaign pause\n");
}

tt_err tt_verb_campaign_task(const tt_cli_args *args)
{
  tt_config *cfg = NULL;
  TT_TRY(tt_config_load(args->file[0], args->override, args->overrides, &cfg));
  int worker = cfg->campaign_mode == TT_CAMPAIGN_MODE_asynchronous;
  tt_err e = (worker ? tt_worker_run_local : tt_oracle_label_group_local)(cfg, args->file[1]);
  tt_config_destroy(&cfg);
  return e;
}
