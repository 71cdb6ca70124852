/* death.h — the message of a child process that the double aborts. */
#ifndef TT_DOUBLE_DEATH_H
#define TT_DOUBLE_DEATH_H
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

/* Run `action` in a child; returns its standard error if it was aborted, "" if it ended normally.
 */
template <class Action> static std::string output_of_aborted(Action action)
{
  int ends[2];
  if (pipe(ends)) return "";
  fflush(nullptr);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    action();
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char part[512];
  for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) said.append(part, (size_t)n);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "" : "stopped: " + said;
}

/* The child must be aborted with a message that contains `part`; or the address sanitizer aborts it
 * at the access itself. */
#if defined(__SANITIZE_ADDRESS__)
#define TT_SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TT_SANITIZED true
#endif
#endif
#ifndef TT_SANITIZED
#define TT_SANITIZED false
#endif
#define TT_SANITIZER_STOPPED(said_)                                                                \
  (TT_SANITIZED && (said_).find("AddressSanitizer") != std::string::npos)
#define TT_CHECK_DIES(part_, ...)                                                                  \
  do {                                                                                             \
    std::string tt_said = output_of_aborted([&] { __VA_ARGS__; });                                 \
    if (!TT_SANITIZER_STOPPED(tt_said)) TT_CHECK_HAS(tt_said.c_str(), part_);                      \
    TT_CHECK(tt_said.empty(), ==, false);                                                          \
  } while (0)
#endif
