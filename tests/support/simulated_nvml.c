/* A simulated NVML with two GPUs. The second one is divided into one MIG instance. Handles are numbers above 0. */

#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6 };
enum { FIRST = 1, SECOND = 2, INSTANCE = 3 };

typedef unsigned long handle;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned int gpu, memory; } rates;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu_instance, compute_instance; } process;

static const char *uuids[] = {"", "GPU-5a1d0000-first", "GPU-5a1d0000-second", "MIG-5a1d0000-instance"};
static const char *names[] = {"", "Simulated H200", "Simulated H200", "Simulated H200 MIG 1g.18gb"};

static int copy(char *to, const char *from, unsigned int length) {
    strncpy(to, from, length);
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned int flags) { return SUCCESS; }
int nvmlInit_v2(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return "simulated error"; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 2; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, handle *device) { *device = index + 1; return SUCCESS; }
int nvmlDeviceGetMinorNumber(handle device, unsigned int *minor) { *minor = device + 3; return SUCCESS; }
int nvmlDeviceGetUUID(handle device, char *uuid, unsigned int length) { return copy(uuid, uuids[device], length); }
int nvmlDeviceGetName(handle device, char *name, unsigned int length) { return copy(name, names[device], length); }
int nvmlDeviceGetMaxMigDeviceCount(handle device, unsigned int *count) { *count = 7; return SUCCESS; }
int nvmlDeviceGetGpuInstanceId(handle device, unsigned int *id) { *id = 9; return SUCCESS; }
int nvmlDeviceGetComputeInstanceId(handle device, unsigned int *id) { *id = 0; return SUCCESS; }

int nvmlDeviceGetMigMode(handle device, unsigned int *current, unsigned int *pending) {
    if (device == FIRST) return NOT_SUPPORTED;
    *current = *pending = 1;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(handle device, unsigned int index, handle *instance) {
    if (index != 1) return NOT_FOUND;
    *instance = INSTANCE;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(handle device, memory *found) {
    found->total = (device == INSTANCE ? 18ULL : 141ULL) << 30;
    found->used = (unsigned long long)device << 30;
    found->free = found->total - found->used;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(handle device, rates *found) {
    if (device != FIRST) return NOT_SUPPORTED;
    found->gpu = 42;
    found->memory = 7;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(handle device, unsigned int *count, process *found) {
    static const process first[] = {{101, 5ULL << 20, 0xFFFFFFFF, 0xFFFFFFFF}};
    static const process second[] = {{202, 6ULL << 20, 9, 0}, {203, ~0ULL, 8, 0}};
    unsigned int size = device == FIRST ? 1 : 2;
    if (*count < size || found == 0) {
        *count = size;
        return 7; /* insufficient size */
    }
    *count = size;
    memcpy(found, device == FIRST ? first : second, size * sizeof(process));
    return SUCCESS;
}
