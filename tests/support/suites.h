/* suites.h — what the main functions of the test programs share. A suite is the tests of one file;
 * each enters itself before main begins (check.h). */
#ifndef TT_TEST_SUITES_H
#define TT_TEST_SUITES_H

enum { TT_TEST_SKIPPED = 77 }; /* exit status of a program that has nothing to test here */

/* Do what the command line says, but run no suite: `WORD ...` of a TT_COMMAND, --list, --help. A
 * pattern that no test has is an error. Returns the exit status; -1: run the suites. */
int tt_tests_begin(int argc, char **argv);

/* The next suite with wanted tests; NULL at the end. Begin with NULL. */
const char *tt_tests_next(const char *suite);

/* Run the wanted tests of a suite. Returns how many failed; memory that is still allocated after
 * the last of them counts as one more. */
int tt_tests_run(const char *suite);
#endif
