/* Counts how often each block of translated code runs. At the end a line goes to the file `out`: address of the first
 * instruction, number of instructions, executions.
 *
 * Debian does not package qemu-plugin.h; what is declared here is the part of its interface that has stayed the same
 * since QEMU 4.2. PLUGIN_VERSION is the version of the interface that QEMU asks for.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info_t;

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           void (*cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, void (*cb)(unsigned int vcpu, void *data),
                                          int flags, void *data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t id, void *data), void *data);

#define EXPORT __attribute__((visibility("default")))
#define NO_REGISTERS 0

EXPORT int qemu_plugin_version = PLUGIN_VERSION;

struct block {
    uint64_t address, instructions, executions;
    struct block *next;
};

static struct block *blocks;
static char path[4096];

static void executed(unsigned int vcpu, void *data)
{
    (void)vcpu;
    ((struct block *)data)->executions++;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    struct block *block = calloc(1, sizeof *block);
    (void)id;
    if (!block) {
        abort();
    }
    block->address = qemu_plugin_tb_vaddr(tb);
    block->instructions = qemu_plugin_tb_n_insns(tb);
    block->next = blocks;
    blocks = block;
    qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, NO_REGISTERS, block);
}

static void ended(qemu_plugin_id_t id, void *data)
{
    FILE *out = fopen(path, "w");
    (void)id;
    (void)data;
    if (!out) {
        abort();
    }
    for (const struct block *block = blocks; block; block = block->next) {
        fprintf(out, "%llx %llu %llu\n", (unsigned long long)block->address, (unsigned long long)block->instructions,
                (unsigned long long)block->executions);
    }
    fclose(out);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info, int argc, char **argv)
{
    (void)info;
    if (argc != 1 || strncmp(argv[0], "out=", 4) != 0 || strlen(argv[0] + 4) >= sizeof path) {
        return -1;
    }
    strcpy(path, argv[0] + 4);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
