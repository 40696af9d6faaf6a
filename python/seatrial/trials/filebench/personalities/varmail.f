# A mail server with a file for each message: delete, deliver, read and answer, read.
# Parameters as documented for Filebench's varmail personality: 16 threads, 1,000 files of 16 KiB
# on average (gamma, shape 1.5) in one folder, appends of up to 16 KiB, an fsync after each.

set $dir=/tmp
set $nthreads=16
set $nfiles=1000
set $meandirwidth=1000000
set $filesize=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)
set $iosize=1m
set $meanappendsize=16k

define fileset name=mail, path=$dir, size=$filesize, entries=$nfiles, dirwidth=$meandirwidth, prealloc=80

define process name=mailserver, instances=1
{
  thread name=mailserver, memsize=10m, instances=$nthreads
  {
    flowop deletefile name=delete, filesetname=mail
    flowop createfile name=deliver-create, filesetname=mail, fd=1
    flowop appendfilerand name=deliver-append, iosize=$meanappendsize, fd=1
    flowop fsync name=deliver-sync, fd=1
    flowop closefile name=deliver-close, fd=1
    flowop openfile name=answer-open, filesetname=mail, fd=1
    flowop readwholefile name=answer-read, fd=1, iosize=$iosize
    flowop appendfilerand name=answer-append, iosize=$meanappendsize, fd=1
    flowop fsync name=answer-sync, fd=1
    flowop closefile name=answer-close, fd=1
    flowop openfile name=fetch-open, filesetname=mail, fd=1
    flowop readwholefile name=fetch-read, fd=1, iosize=$iosize
    flowop closefile name=fetch-close, fd=1
  }
}

run 60
