/* folder.h — a directory for each suite, removed after its last test; a file named .tmp... that is
 * still there then counts as a failed test. */
#ifndef TT_TEST_FOLDER_H
#define TT_TEST_FOLDER_H

/* For TT_SUITE: make the directory and work in it, so that names of files are relative to it. The
 * second one also prints no warnings. Return 0, or -1. */
int enter_folder(void **unused);
int enter_folder_quietly(void **unused);

/* Its absolute path, "" if the suite has not entered it. */
extern char test_folder[64];

/* Write a new file. */
void put_text(const char *file, const char *text);
#endif
