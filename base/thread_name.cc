#include "base/thread_name.h"

#include <sys/prctl.h>

namespace isocost {

// Uses prctl because, unlike pthread_setname_np, it shortens a name that is too long.
void name_thread(const char* name) { ::prctl(PR_SET_NAME, name); }

}  // namespace isocost
