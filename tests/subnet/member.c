/* Joins a multicast group by subnet administration, or leaves it: member GID STATE [leave|create]. Prints its LID. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <rdma/ib_user_mad.h>

#define PORT "/sys/class/infiniband/verbena0/ports/1/"

enum { HEADER = 64, MAD = 256, RECORD = HEADER + 56, SET = 2, DELETE = 0x15, SA = 3, MEMBER = 0x38 };

static void must(int is_true, const char *what)
{
    if (is_true)
        return;
    fprintf(stderr, "member: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void text(const char *name, char *to, int length)
{
    FILE *file = fopen(name, "r");
    must(file && fgets(to, length, file), name);
    to[strcspn(to, "\n")] = 0;
    fclose(file);
}

int main(int count, char **words)
{
    must(count == 3 || count == 4, "member GID STATE [leave|create]");
    int leaves = count == 4 && strcmp(words[3], "leave") == 0;
    char gid[64], lid[64];
    text(PORT "gids/0", gid, sizeof gid);
    text(PORT "sm_lid", lid, sizeof lid);
    int file = open("/dev/infiniband/umad0", O_RDWR);
    must(file >= 0 && ioctl(file, IB_USER_MAD_ENABLE_PKEY) == 0, "umad0");
    struct ib_user_mad_reg_req agent = {.qpn = 1, .mgmt_class = SA, .mgmt_class_version = 2};
    must(ioctl(file, IB_USER_MAD_REGISTER_AGENT, &agent) == 0, "agent");

    unsigned char packet[HEADER + MAD] = {0};
    struct ib_user_mad_hdr *header = (void *)packet;
    header->id = agent.id;
    header->timeout_ms = 1000;
    header->retries = 3;
    header->length = sizeof packet;
    header->qpn = htonl(1);
    header->qkey = htonl(0x80010000);
    header->lid = htons(strtoul(lid, NULL, 0));
    unsigned char *mad = packet + HEADER;
    mad[0] = 1, mad[1] = SA, mad[2] = 2, mad[3] = leaves ? DELETE : SET;
    mad[15] = 1, mad[17] = MEMBER;
    unsigned char *record = packet + RECORD;
    must(inet_pton(AF_INET6, words[1], record) == 1 && inet_pton(AF_INET6, gid, record + 16) == 1, "GID");
    record[35] = 1;                       /* Q_Key */
    record[40] = record[41] = 0xff;       /* P_Key */
    record[48] = 0x20 | atoi(words[2]);   /* scope, join state */
    /* GIDs, join state; to make a group Q_Key, traffic class, P_Key, service level, flow label. */
    uint64_t mask = 0x10003;
    if (strncmp(words[1], "ff12:401b", 9) != 0 || (count == 4 && !leaves))
        mask |= 1 << 2 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13;
    for (int byte = 0; byte < 8; byte++)
        mad[48 + byte] = mask >> (56 - 8 * byte);
    must(write(file, packet, sizeof packet) == sizeof packet, "write");
    must(read(file, packet, sizeof packet) == sizeof packet && header->status == 0, "no answer");
    unsigned status = mad[4] << 8 | mad[5];
    printf("status %#x lid %#x\n", status, record[36] << 8 | record[37]);
    return status != 0;
}
