#include "base/thread_name.h"

#include <sys/prctl.h>

namespace isocost {

// Unlike pthread_setname_np, this shortens a name that is too long.
void name_thread(const char* name) { ::prctl(PR_SET_NAME, name); }

}  // namespace isocost
