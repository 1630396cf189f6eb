// Names for threads, as `top -H`, debuggers and /proc/PID/task/TID/comm show them.
#pragma once

#include <pthread.h>

namespace quire {

// Names the calling thread. name: at most 15 characters; a longer name is ignored.
inline void name_this_thread(const char* name) {
  pthread_setname_np(pthread_self(), name);
}

}  // namespace quire
