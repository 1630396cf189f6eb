// Priority of a thread for work that may wait.
#pragma once

namespace quire {

// Lowers the priority of the calling thread: adds `nice` to its niceness, and lets threads of normal priority
// take over its core as soon as they wake up instead of at the end of its time slice. Best effort: without
// the permission, or on another system, the thread keeps its priority.
void lower_thread_priority(int nice);

}  // namespace quire
