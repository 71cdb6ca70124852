/* plan_campaign.h — `tutti plan` of a campaign: its pool, rounds, labels and cost. Local. */
#ifndef TT_TOOLS_PLAN_CAMPAIGN_H
#define TT_TOOLS_PLAN_CAMPAIGN_H
#include "core/base/json.h"
#include "core/model/cohort.h"
#include "io/data/data.h"

#include <stdio.h>

/* Print what the rounds of a campaign need; all: its cohorts for the initial data of this shape.
 * Errors: those of reading the header of pool.file (other columns than data.file: DATA), of
 * tt_job_check_commands_local. */
tt_err tt_plan_campaign_print_local(const tt_config *cfg, const tt_data_shape *shape,
                                    const tt_cohorts *all, FILE *out);

/* The same as a JSON object (docs/json.md). Owner: the caller. */
tt_err tt_plan_campaign_to_json_local(const tt_config *cfg, const tt_data_shape *shape,
                                      const tt_cohorts *all, json_t **out);
#endif
