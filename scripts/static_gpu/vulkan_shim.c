// A library between Deno and the Vulkan loader. It lets Deno open a device of RADV that has no GPU, and appends to the
// file $PIPELINES what the compiler says of every compute pipeline: lines `statistic <name> = <value>`, then the
// assembly. The file begins with a line `compiler <version>`.
//
// Without a GPU RADV reports no memory, and WebGPU allocates some when it opens a device: here it has 64 GiB, of which
// nothing is used. RADV makes no timeline semaphores there and crashes on commands, so Deno is told that there are none,
// commands are dropped, and each submit counts as done. All memory that is mapped is the same, so what is read means
// nothing. radv.ts builds it as libvulkan.so.1; $VULKAN_LOADER is the true one. The structures and
// numbers are those of the Vulkan specification, declared here so that no headers have to be installed.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HEAP_BYTES (64ull << 30)
#define MAPPED_BYTES (4ull << 30)
#define CAPTURE 0xC0u // statistics and internal representations
#define EXECUTABLE_PROPERTIES "VK_KHR_pipeline_executable_properties"
enum { MAX_STATISTICS = 64, MAX_REPRESENTATIONS = 16 };
enum { EXECUTABLE_INFO = 1000269003, STATISTIC = 1000269004, REPRESENTATION = 1000269005 };
enum { TIMELINE_SEMAPHORE_FEATURES = 1000207000 };

typedef void (*function)(void);
typedef struct { uint32_t type; void *next; } any;
typedef struct {
  uint32_t types;
  struct { uint32_t flags, heap; } type[32];
  uint32_t heaps;
  struct { uint64_t size; uint32_t flags; } heap[16];
} memory;
typedef struct { uint64_t size, alignment; uint32_t types; } requirements;
typedef struct {
  any head;
  uint32_t flags, queues;
  void *queue;
  uint32_t layers;
  void *layer;
  uint32_t extensions;
  const char *const *extension;
  void *features;
} device_info;
typedef struct { any head; uint32_t flags; char stage[48]; void *layout, *base; int32_t index; } pipeline_info;
typedef struct { any head; uint64_t pool; uint32_t level, count; } command_info;
typedef struct { any head; uint64_t pipeline; uint32_t executable; } executable;
typedef struct { any head; char name[256], description[256]; uint32_t format; uint64_t value; } statistic;
typedef struct { any head; char name[256], description[256]; uint32_t is_text; size_t size; char *data; } representation;

// The functions of the loader and the driver.
static function (*instance_function)(void *, const char *), (*device_function)(void *, const char *);
static void (*get_true_features)(void *, any *);
static void (*get_true_requirements)(void *, uint64_t, requirements *);
static int (*create_true_device)(void *, device_info *, void *, void **);
static int (*create_true_pipelines)(void *, uint64_t, uint32_t, pipeline_info *, void *, uint64_t *);
static void *last_instance;

static FILE *output(void) {
  const char *path = getenv("PIPELINES");
  FILE *out = path ? fopen(path, "a") : 0;
  if (!out) { fprintf(stderr, "Cannot write to the file $PIPELINES\n"); exit(1); }
  return out;
}

static void get_memory(void *physical, memory *m) {
  (void)physical;
  memset(m, 0, sizeof *m);
  m->types = m->heaps = 1;
  m->type[0].flags = 15; // device-local, visible to the host, coherent, cached
  m->heap[0].size = HEAP_BYTES;
  m->heap[0].flags = 1; // device-local
}

static void get_requirements(void *device, uint64_t buffer, requirements *r) {
  get_true_requirements(device, buffer, r);
  r->types = 1; // the one above
}

static void get_features(void *physical, any *features) {
  get_true_features(physical, features);
  for (any *s = features; s; s = s->next)
    if (s->type == TIMELINE_SEMAPHORE_FEATURES) *(uint32_t *)(s + 1) = 0;
}

static void write_compiler(void *physical) {
  uint32_t properties[1024]; // the versions of the API and of the driver, then much else
  void (*get)(void *, uint32_t *) = (void *)instance_function(last_instance, "vkGetPhysicalDeviceProperties");
  get(physical, properties);
  FILE *out = output();
  uint32_t version = properties[1];
  fprintf(out, "compiler Mesa %u.%u.%u\n", version >> 22, version >> 12 & 1023, version & 4095);
  fclose(out);
}

static int create_device(void *physical, device_info *info, void *allocator, void **made) {
  write_compiler(physical);
  const char *extensions[info->extensions + 1];
  memcpy(extensions, info->extension, info->extensions * sizeof *extensions);
  extensions[info->extensions] = EXECUTABLE_PROPERTIES;
  device_info more = *info;
  more.extension = extensions;
  more.extensions++;
  return create_true_device(physical, &more, allocator, made);
}

static void write_statistics(FILE *out, void *device, executable *which) {
  int (*get)(void *, executable *, uint32_t *, statistic *) =
      (void *)device_function(device, "vkGetPipelineExecutableStatisticsKHR");
  static statistic statistics[MAX_STATISTICS];
  uint32_t count = MAX_STATISTICS;
  for (uint32_t i = 0; i < count; i++) statistics[i].head = (any){STATISTIC, 0};
  get(device, which, &count, statistics);
  for (uint32_t i = 0; i < count; i++)
    fprintf(out, "statistic %s = %llu\n", statistics[i].name, (unsigned long long)statistics[i].value);
}

static void write_assembly(FILE *out, void *device, executable *which) {
  int (*get)(void *, executable *, uint32_t *, representation *) =
      (void *)device_function(device, "vkGetPipelineExecutableInternalRepresentationsKHR");
  static representation texts[MAX_REPRESENTATIONS];
  uint32_t count = MAX_REPRESENTATIONS;
  memset(texts, 0, sizeof texts);
  for (uint32_t i = 0; i < count; i++) texts[i].head.type = REPRESENTATION;
  get(device, which, &count, texts); // the sizes
  for (uint32_t i = 0; i < count; i++) texts[i].data = malloc(texts[i].size + 1);
  get(device, which, &count, texts);
  for (uint32_t i = 0; i < count; i++) {
    if (!strcmp(texts[i].name, "Assembly")) fprintf(out, "%.*s\n", (int)texts[i].size, texts[i].data);
    free(texts[i].data);
  }
}

static int create_pipelines(void *device, uint64_t cache, uint32_t count, pipeline_info *infos, void *allocator,
                            uint64_t *pipelines) {
  for (uint32_t i = 0; i < count; i++) infos[i].flags |= CAPTURE;
  int result = create_true_pipelines(device, cache, count, infos, allocator, pipelines);
  if (result != 0) return result;
  FILE *out = output();
  for (uint32_t i = 0; i < count; i++) {
    executable which = {{EXECUTABLE_INFO, 0}, pipelines[i], 0};
    write_statistics(out, device, &which);
    write_assembly(out, device, &which);
  }
  fclose(out);
  return result;
}

static int drop_command(void) { return 0; }
static int is_command(const char *name) {
  static const char *const more[] = {
      "vkBeginCommandBuffer", "vkEndCommandBuffer", "vkCreateCommandPool", "vkResetCommandPool", "vkDestroyCommandPool",
      "vkFreeCommandBuffers", "vkGetFenceStatus",   "vkWaitForFences",     "vkResetFences",      "vkUnmapMemory"};
  for (uint32_t i = 0; i < sizeof more / sizeof *more; i++)
    if (!strcmp(name, more[i])) return 1;
  return !strncmp(name, "vkCmd", 5) || !strncmp(name, "vkQueueSubmit", 13);
}

static int allocate_commands(void *device, command_info *info, void **commands) {
  (void)device;
  static void *command[1];
  for (uint32_t i = 0; i < info->count; i++) commands[i] = command;
  return 0;
}

static int map_memory(void *device, uint64_t memory, uint64_t offset, uint64_t size, uint32_t flags, void **mapped) {
  (void)device, (void)memory, (void)size, (void)flags;
  static char *region;
  if (!region)
    region = mmap(0, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) { fprintf(stderr, "Cannot reserve %llu bytes\n", MAPPED_BYTES); exit(1); }
  *mapped = region + offset;
  return 0;
}

#define OVERRIDE(symbol, original, own) \
  if (found && !strcmp(name, symbol)) return original = (void *)found, (function)own

static function get_device_function(void *device, const char *name) {
  function found = device_function(device, name);
  if (found && is_command(name)) return (function)drop_command;
  if (!strcmp(name, "vkAllocateCommandBuffers")) return (function)allocate_commands;
  if (!strcmp(name, "vkMapMemory")) return (function)map_memory;
  OVERRIDE("vkCreateComputePipelines", create_true_pipelines, create_pipelines);
  OVERRIDE("vkGetBufferMemoryRequirements", get_true_requirements, get_requirements);
  return found;
}

__attribute__((visibility("default"))) function vkGetInstanceProcAddr(void *instance, const char *name) {
  if (!instance_function) {
    void *loader = dlopen(getenv("VULKAN_LOADER"), RTLD_NOW | RTLD_LOCAL);
    if (!loader) { fprintf(stderr, "%s\n", dlerror()); exit(1); }
    instance_function = (void *)dlsym(loader, "vkGetInstanceProcAddr");
  }
  if (instance) last_instance = instance;
  function found = instance_function(instance, name);
  OVERRIDE("vkGetDeviceProcAddr", device_function, get_device_function);
  OVERRIDE("vkCreateDevice", create_true_device, create_device);
  OVERRIDE("vkGetPhysicalDeviceFeatures2", get_true_features, get_features);
  OVERRIDE("vkGetPhysicalDeviceFeatures2KHR", get_true_features, get_features);
  if (!strcmp(name, "vkGetPhysicalDeviceMemoryProperties")) return (function)get_memory;
  return found;
}
