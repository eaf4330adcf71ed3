// A library between Deno and the Vulkan loader. It lets Deno open a device of RADV that has no GPU, and appends to the
// file $PIPELINES what the compiler says of every compute pipeline: lines `statistic <name> = <value>`, then the assembly.
// The file begins with a line `compiler <version>`.
//
// Without a GPU RADV reports no memory, and WebGPU allocates some when it opens a device: here it has 64 GiB, of which
// nothing is used. RADV makes no timeline semaphores there and crashes on commands, so Deno is told that there are none,
// and commands are dropped. radv.ts builds it as libvulkan.so.1; $VULKAN_LOADER is the true one. The structures are those
// of the Vulkan specification, declared here so that no headers have to be installed.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAP_BYTES (64ull << 30)
#define CAPTURE 0xC0u // statistics and internal representations
enum { PIPELINE_INFO = 1000269001, EXECUTABLE_INFO = 1000269003, STATISTIC = 1000269004, REPRESENTATION = 1000269005 };
enum { MEMORY_BUDGET = 1000237000, TIMELINE_SEMAPHORE_FEATURES = 1000207000, MAX_STATISTICS = 64, MAX_REPRESENTATIONS = 16 };

typedef void (*function)(void);
typedef struct { uint32_t type; void *next; } any;
typedef struct { uint32_t types; struct { uint32_t flags, heap; } type[32];
                 uint32_t heaps; struct { uint64_t size; uint32_t flags; } heap[16]; } memory;
typedef struct { any head; memory properties; } memory2;
typedef struct { any head; uint64_t budget[16], usage[16]; } memory_budget;
typedef struct { uint64_t size, alignment; uint32_t types; } requirements;
typedef struct { any head; requirements values; } requirements2;
typedef struct { any head; uint32_t flags, queues; void *queue; uint32_t layers; void *layer;
                 uint32_t extensions; const char *const *extension; void *features; } device_info;
typedef struct { any head; uint32_t flags; uint32_t padding; char stage[48]; void *layout; void *base; int32_t index; } pipeline_info;
typedef struct { any head; uint64_t pipeline; uint32_t executable; } executable;
typedef struct { any head; char name[256], description[256]; uint32_t format; uint64_t value; } statistic;
typedef struct { any head; char name[256], description[256]; uint32_t is_text; size_t size; char *data; } representation;

static function (*next_instance)(void *, const char *), (*next_device)(void *, const char *);
static void *device, *last_instance;

static void set_memory(memory *m) {
  memset(m, 0, sizeof *m);
  m->types = m->heaps = 1;
  m->type[0].flags = 15; // device-local, visible to the host, coherent, cached
  m->heap[0].size = HEAP_BYTES;
  m->heap[0].flags = 1;
}
static void get_memory(void *physical, memory *m) { (void)physical; set_memory(m); }
static void get_memory2(void *physical, memory2 *m) {
  (void)physical;
  set_memory(&m->properties);
  for (any *s = m->head.next; s; s = s->next)
    if (s->type == MEMORY_BUDGET) {
      memset(((memory_budget *)s)->budget, 0, sizeof(uint64_t) * 32);
      ((memory_budget *)s)->budget[0] = HEAP_BYTES;
    }
}

static void (*next_features2)(void *, any *);
static void get_features2(void *physical, any *features) {
  next_features2(physical, features);
  for (any *s = features; s; s = s->next) if (s->type == TIMELINE_SEMAPHORE_FEATURES) *(uint32_t *)(s + 1) = 0;
}

static FILE *output(void) {
  const char *path = getenv("PIPELINES");
  FILE *out = path ? fopen(path, "a") : 0;
  if (!out) { fprintf(stderr, "Cannot write to the file $PIPELINES\n"); exit(1); }
  return out;
}

static int (*next_create_device)(void *, device_info *, void *, void **);
static int create_device(void *physical, device_info *info, void *allocator, void **made) {
  uint32_t properties[1024]; // the versions of the API and of the driver, then much else
  ((void (*)(void *, uint32_t *))next_instance(last_instance, "vkGetPhysicalDeviceProperties"))(physical, properties);
  FILE *out = output();
  fprintf(out, "compiler Mesa %u.%u.%u\n", properties[1] >> 22, properties[1] >> 12 & 1023, properties[1] & 4095);
  fclose(out);
  const char *extensions[info->extensions + 1];
  memcpy(extensions, info->extension, info->extensions * sizeof *extensions);
  extensions[info->extensions] = "VK_KHR_pipeline_executable_properties";
  device_info more = *info;
  more.extension = extensions;
  more.extensions++;
  return next_create_device(physical, &more, allocator, made);
}

static void (*next_requirements)(void *, uint64_t, requirements *), (*next_requirements2)(void *, void *, requirements2 *);
static void get_requirements(void *d, uint64_t buffer, requirements *r) { next_requirements(d, buffer, r); r->types = 1; }
static void get_requirements2(void *d, void *info, requirements2 *r) { next_requirements2(d, info, r); r->values.types = 1; }

static void write_pipeline(FILE *out, uint64_t pipeline) {
  executable which = {{EXECUTABLE_INFO, 0}, pipeline, 0};
  uint32_t count = MAX_STATISTICS;
  static statistic statistics[MAX_STATISTICS];
  for (int i = 0; i < MAX_STATISTICS; i++) statistics[i].head = (any){STATISTIC, 0};
  ((int (*)(void *, executable *, uint32_t *, statistic *))next_device(device, "vkGetPipelineExecutableStatisticsKHR"))(device, &which, &count, statistics);
  for (uint32_t i = 0; i < count; i++) fprintf(out, "statistic %s = %llu\n", statistics[i].name, (unsigned long long)statistics[i].value);
  int (*get_texts)(void *, executable *, uint32_t *, representation *) = (void *)next_device(device, "vkGetPipelineExecutableInternalRepresentationsKHR");
  static representation texts[MAX_REPRESENTATIONS];
  for (int i = 0; i < MAX_REPRESENTATIONS; i++) { memset(&texts[i], 0, sizeof texts[i]); texts[i].head.type = REPRESENTATION; }
  count = MAX_REPRESENTATIONS;
  get_texts(device, &which, &count, texts);
  for (uint32_t i = 0; i < count; i++) texts[i].data = malloc(texts[i].size + 1);
  get_texts(device, &which, &count, texts);
  for (uint32_t i = 0; i < count; i++) {
    if (strcmp(texts[i].name, "Assembly") == 0) fprintf(out, "%.*s\n", (int)texts[i].size, texts[i].data);
    free(texts[i].data);
  }
}

static int (*next_create)(void *, uint64_t, uint32_t, pipeline_info *, void *, uint64_t *);
static int create_pipelines(void *d, uint64_t cache, uint32_t count, pipeline_info *infos, void *allocator, uint64_t *pipelines) {
  device = d;
  (void)cache;
  for (uint32_t i = 0; i < count; i++) infos[i].flags |= CAPTURE;
  int result = next_create(d, 0, count, infos, allocator, pipelines);
  if (result != 0) return result;
  FILE *out = output();
  for (uint32_t i = 0; i < count; i++) write_pipeline(out, pipelines[i]);
  fclose(out);
  return result;
}

// Commands are neither recorded nor run: the device without a GPU crashes on them.
static int do_nothing(void) { return 0; }
static int is_command(const char *name) {
  static const char *starts[] = {"vkCmd", "vkBeginCommandBuffer", "vkEndCommandBuffer", "vkResetCommand", "vkQueueSubmit", "vkWaitForFences", "vkGetFenceStatus", "vkDeviceWaitIdle", "vkQueueWaitIdle"};
  for (unsigned i = 0; i < sizeof starts / sizeof *starts; i++) if (!strncmp(name, starts[i], strlen(starts[i]))) return 1;
  return 0;
}

#define OVERRIDE(symbol, next, own) if (!strcmp(name, symbol)) return next = (void *)found, (function)own
static function device_function(void *d, const char *name) {
  function found = next_device(d, name);
  if (found && is_command(name)) return (function)do_nothing;
  OVERRIDE("vkCreateComputePipelines", next_create, create_pipelines);
  OVERRIDE("vkGetBufferMemoryRequirements", next_requirements, get_requirements);
  OVERRIDE("vkGetBufferMemoryRequirements2", next_requirements2, get_requirements2);
  OVERRIDE("vkGetBufferMemoryRequirements2KHR", next_requirements2, get_requirements2);
  return found;
}

__attribute__((visibility("default"))) function vkGetInstanceProcAddr(void *instance, const char *name) {
  if (!next_instance) {
    void *loader = dlopen(getenv("VULKAN_LOADER"), RTLD_NOW | RTLD_LOCAL);
    if (!loader) { fprintf(stderr, "%s\n", dlerror()); exit(1); }
    next_instance = (void *)dlsym(loader, "vkGetInstanceProcAddr");
  }
  if (instance) last_instance = instance;
  function found = next_instance(instance, name);
  OVERRIDE("vkGetDeviceProcAddr", next_device, device_function);
  OVERRIDE("vkCreateDevice", next_create_device, create_device);
  OVERRIDE("vkGetPhysicalDeviceFeatures2", next_features2, get_features2);
  OVERRIDE("vkGetPhysicalDeviceFeatures2KHR", next_features2, get_features2);
  if (!strcmp(name, "vkGetPhysicalDeviceMemoryProperties")) return (function)get_memory;
  if (!strncmp(name, "vkGetPhysicalDeviceMemoryProperties2", 36)) return (function)get_memory2;
  if (!strcmp(name, "vkGetInstanceProcAddr")) return (function)vkGetInstanceProcAddr;
  return found;
}
