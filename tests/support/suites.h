/* suites.h — shared by the main functions of the test programs. A suite is the tests of one file;
 * each test registers itself before main starts (check.h). */
#ifndef TT_TEST_SUITES_H
#define TT_TEST_SUITES_H

enum { TT_TEST_SKIPPED = 77 }; /* exit status of a skipped program */

/* Handle the command line: `WORD ...` of a TT_COMMAND, --list, --help. A pattern without a test is
 * an error. Returns the exit status; -1: run the suites. */
int tt_tests_begin(int argc, char **argv);

/* The next suite with selected tests; NULL at the end. Start with NULL. */
const char *tt_tests_next(const char *suite);

/* Run the selected tests of a suite. Returns the number of failed tests. A test that does not free
 * what it allocates has failed; in a suite with an end function, which may free what its tests
 * share, memory that is still allocated after it counts as one more failure. */
int tt_tests_run(const char *suite);
#endif
