/* Makes one system or library call of a program fail, or kills the program there. Loaded with LD_PRELOAD.

   QUIRE_FAULTS names a file of sizeof(struct control) bytes, which this library maps. The test that started the
   program maps it too: it chooses the call, the thread (by name) and the number of the call that fails, arms the
   fault, and reads how often the call was made and whether it failed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* tests/e2e/faults/control.py has the same layout and numbers. */
enum call { CALL_MALLOC = 1, CALL_WRITE, CALL_PREAD, CALL_MMAP, CALL_ACCEPT, CALL_THREAD, CALL_PWRITE, CALL_PWRITEV };

struct control {
  _Atomic uint32_t armed;
  uint32_t call;
  int64_t failing;        /* number of the call that fails, from 1 */
  _Atomic int64_t count;  /* calls since arming */
  _Atomic int64_t fired;  /* failures since arming */
  char thread[16];        /* empty = any thread */
  uint32_t kills;         /* the call ends the process with SIGKILL instead; a write has done half of its work */
};

extern void* __libc_malloc(size_t size);
extern void* __libc_realloc(void* p, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);

static struct control* control;

__attribute__((constructor)) static void open_control(void) {
  const char* path = getenv("QUIRE_FAULTS");
  if (path == NULL) return;
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* p = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (p != MAP_FAILED) control = p;
}

static int fails(uint32_t call) {
  if (control == NULL || !atomic_load(&control->armed) || control->call != call) return 0;
  if (control->thread[0] != '\0') {
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    if (strncmp(name, control->thread, sizeof name) != 0) return 0;
  }
  if (atomic_fetch_add(&control->count, 1) + 1 != control->failing) return 0;
  atomic_fetch_add(&control->fired, 1);
  if (control->kills && call != CALL_WRITE && call != CALL_PWRITE && call != CALL_PWRITEV) kill(getpid(), SIGKILL);
  return 1;
}

#define REAL(type, name, ...)                                       \
  static type (*real)(__VA_ARGS__);                                 \
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, name)

void* malloc(size_t size) {
  if (fails(CALL_MALLOC)) {
    errno = ENOMEM;
    return NULL;
  }
  return __libc_malloc(size);
}

void* realloc(void* p, size_t size) {
  if (fails(CALL_MALLOC)) {
    errno = ENOMEM;
    return NULL;
  }
  return __libc_realloc(p, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  if (fails(CALL_MALLOC)) {
    errno = ENOMEM;
    return NULL;
  }
  return __libc_memalign(alignment, size);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  REAL(ssize_t, "write", int, const void*, size_t);
  if (fails(CALL_WRITE)) {
    if (control->kills) {
      real(fd, bytes, size / 2);
      kill(getpid(), SIGKILL);
    }
    errno = EIO;
    return -1;
  }
  return real(fd, bytes, size);
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  REAL(ssize_t, "pwrite", int, const void*, size_t, off_t);
  if (fails(CALL_PWRITE)) {
    if (control->kills) {
      real(fd, bytes, size / 2, offset);
      kill(getpid(), SIGKILL);
    }
    errno = ENOSPC;
    return -1;
  }
  return real(fd, bytes, size, offset);
}

ssize_t pwritev(int fd, const struct iovec* parts, int count, off_t offset) {
  REAL(ssize_t, "pwritev", int, const struct iovec*, int, off_t);
  if (fails(CALL_PWRITEV)) {
    if (control->kills) {
      real(fd, parts, (count + 1) / 2, offset);
      kill(getpid(), SIGKILL);
    }
    errno = ENOSPC;
    return -1;
  }
  return real(fd, parts, count, offset);
}

ssize_t pread(int fd, void* bytes, size_t size, off_t offset) {
  REAL(ssize_t, "pread", int, void*, size_t, off_t);
  if (fails(CALL_PREAD)) {
    errno = EIO;
    return -1;
  }
  return real(fd, bytes, size, offset);
}

void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  REAL(void*, "mmap", void*, size_t, int, int, int, off_t);
  if (fails(CALL_MMAP)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return real(address, size, protection, flags, fd, offset);
}

int accept(int fd, struct sockaddr* address, socklen_t* size) {
  REAL(int, "accept", int, struct sockaddr*, socklen_t*);
  if (fails(CALL_ACCEPT)) {
    errno = EMFILE;
    return -1;
  }
  return real(fd, address, size);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  REAL(int, "pthread_create", pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (fails(CALL_THREAD)) return EAGAIN;
  return real(thread, attributes, body, argument);
}
