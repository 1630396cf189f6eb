import sys,time,torch
sys.path.insert(0,'.')
from model import *
th=int(sys.argv[1]); L=int(sys.argv[2]); mode=sys.argv[3]; comp=int(sys.argv[4]); H=int(sys.argv[5]) if len(sys.argv)>5 else 256
torch.set_num_threads(th)
cfg=Config(num_hidden_layers=L,hidden_size=H,num_attention_heads=H//32,num_key_value_heads=H//64,intermediate_size={256:688,320:864,384:1024,192:512}[H])
m=Llama(cfg)
f=torch.compile(m,dynamic=False) if comp else m
x=torch.randint(0,4096,(16,512)); 
def step():
    with torch.autocast('cpu',dtype=torch.bfloat16,enabled=mode=='bf16'):
        l=f(x,x)
    l.backward()
t=time.time();step();print('first',time.time()-t,flush=True)
t=time.time();n=3
for _ in range(n): step()
dt=(time.time()-t)/n
print(th,L,mode,comp,H,m.count(),'tok/s',8192/dt)
