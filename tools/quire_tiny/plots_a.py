"""Story plots, part one: each tells one causally connected story in a World."""

import words as W
from beats import comfort, end, joy, thanks
from engine import Place, Thing


def lost_thing(w):
    x = w.free_thing("x", W.TOYS + W.WEAR + W.TREASURES)
    w.place("pl", ("park", "garden", "forest", "beach", "meadow", "playground", "farm", "market", "orchard", "hill"))
    w.put(hide=w.pick(W.HIDING), no1=w.pick(W.HIDING), no2=w.pick(W.HIDING))
    w.open()
    w("{h} had {x.a}. [It was a gift from {e}.|It was {h.p} favorite thing.|{h.s} took it everywhere.|]",
      "{h.p} favorite thing was {x.a}. [{e} had made it.|{h.s} never went anywhere without it.|]",
      "{h} loved {h.p} {x}. [{h.s} played with it every day.|It was very special.|]")
    w("{when} {h} took the {x.n} {pl.to}.", "{when} {h} went {pl.to} with the {x}.",
      "{when} {h} carried the {x} {pl.to}.")
    w("{h.s} played and ran [all morning|for a long time]. [Then|But then], the {x.n} was gone!",
      "When it was time to go home, {h} could not find the {x.n}.",
      "{h.s} put it down for a moment to [look at a bird|pick a flower|drink some water]. When {h.s} looked again, it was gone.",
      "But on the way home, {h.s} saw that the {x.n} was [gone|missing].")
    w.para()
    w('"[Oh no|Oh dear]! [Where is my {x.n}|My {x.n} is gone|I lost my {x.n}]!" {h} cried.',
      '{h} felt {sad}. "[Where can it be|Where is my {x}]?" {h.s} asked.',
      '{h} began to cry. "I have lost my {x}," {h.s} said.')
    w("{h.s} looked {no1}, but it was not there.", "{h.s} looked {no1}. Nothing was there. {h.s} looked {no2}. Nothing was there either.",
      "{h.s} looked here and there, but the {x.n} was not {no1}.")
    w("Then {h} met {f.first}. \"Why are you [so sad|crying]{h.vc}?\" asked {f}.",
      'Just then, {f.first} came by. "What is wrong{h.vc}?" {f.s} asked.',
      '{f.first} heard {h.o} and came [to see|over]. "Can I help you?" {f.s} asked.')
    w('"I lost my {x}," {h} said. "[Do not worry|Do not be sad]," said {f}. "[I will help you look|We will find it together|Let us look together]."',
      '{h} told {f.o} about the {x.n}. "[I can help|Two can see more than one]," said {f}.')
    w.para()
    w("So {they} looked [everywhere|all over {pl}|again]. {they} walked slowly and looked [at the ground|under every leaf|behind every tree].",
      "Together, {they} went back {pl.to}. {they} looked high and low.")
    w('At last, {f} called, "[Look over there|Come here|Is this it]!" The {x.n} was {hide}.',
      "Then {h} saw something {hide}. It was the {x}!",
      "{f} looked {hide}, and there was the {x}!")
    thanks(w, '"[You found it|We found it|Here it is]! [Thank you|Thank you so much]{f.vc}!" {h} said and hugged {f.o}.')
    w.para()
    w("After that, {h} [always took good care of|never again lost|always watched] the {x.n}.",
      "{h} shared the {x.n} with {f}, and {they} played until the sun went down.", "{they} walked home together.", "")
    end(w, "a good friend helps when you are sad")


def new_friend(w):
    w.place("pl", ("park", "garden", "beach", "pond", "meadow", "playground", "lake", "field", "river", "orchard"))
    w.free_thing("x", W.TOYS)
    w.put(game=w.pick(("hide and seek", "tag", "a jumping game", "catch", "a guessing game", "a counting game", "explorers")))
    w.open()
    w("But {h} had no one to play with. {h.s} felt [lonely|sad and alone].", "But {h} was lonely. [{h.s} wanted a friend.|Every day was the same.]",
      "{h} wished for [a friend|someone to play with].")
    w("{when} {h} went {pl.to} [alone|all alone|with {h.p} {x}].", "{when} {h} walked {pl.to} [to look for a friend|all alone].")
    w("There {h.s} saw {f.first}. {f.s} was sitting [all alone|under a tree|on a stone|on a bench].",
      "{pl.at}, {h.s} met {f.first}, who was [looking at the ground|playing alone|very quiet].",
      "Someone was [sitting|standing] {pl.at}. It was {f.first}.")
    w.para()
    w("{h} wanted to say hello, but {h.s} was [shy|a little afraid]. {h.s} took a deep breath.", "{h} walked closer and smiled.", "{h} waved.")
    w('"Hello," {h} said. "[Do you want to play with me|Would you like to play|Can I sit with you]?"',
      '"Hi! {h.iam}," {h} said. "What is your name?"' if not w.first_person else '"Hi! What is your name?" I asked.')
    w('{f} [looked up|smiled]. "{f.iam}," {f.s} said. "[I would love to play|I wanted a friend too|I am happy to meet you]."',
      '"{f.iam}," said {f}. "[No one ever asked me to play|I have no friends here|I am new here]."')
    w.para()
    w("{they} played {game} [all afternoon|until the sun went down|for hours].", "First {they} played {game}. Then {they} shared [an apple|some bread|a cookie].",
      "{h} showed {f.o} the {x.n}, and {they} took turns with it.", "{they} ran, jumped and laughed [all day|together].")
    w("{f} showed {h.o} [a secret place|how to whistle|a nest with three eggs|the best place to see the sunset].", "{f} told {h.o} a very funny story.", "")
    w.para()
    w('"[Will you come back tomorrow|Can we play again tomorrow]?" asked {f}. "Yes! [I will|Of course]," {h} said.',
      'When it got late, {f} said, "[See you tomorrow|You are my friend now]{h.vc}!"')
    w("From that day on, {they} met [every day|{pl.at} every day].", "{h} [ran|walked] home with a [big smile|happy heart].", "{h} was not lonely any more.")
    end(w, "it is good to say hello first")


FEARS = [
    ("the dark", "The room was very dark", "a small light", "The dark is only the day asleep"),
    ("thunder", "The thunder was very loud", "a warm blanket", "Thunder is only the sky clapping its hands"),
    ("the water", "The water looked deep and cold", "a hand to hold", "We can start with one toe"),
    ("big dogs", "A big dog stood by the gate", "a little courage", "A dog that wags its tail wants a friend"),
    ("high places", "The ladder was very tall", "one step at a time", "Do not look down, look up"),
    ("the wind", "The wind howled around the house", "a brave song", "The wind only wants to sing with us"),
    ("strange noises", "Something went bump and scratch", "a lamp", "Most noises are small things that sound big"),
    ("spiders", "A spider sat on the wall", "a closer look", "A spider is more afraid of you than you are of it"),
    ("the deep forest", "The trees were tall and close together", "a friend at each side", "The forest is full of friends you do not know yet"),
    ("the bridge", "The bridge was high and it shook", "a slow and steady step", "Hold the rope and look at the other side"),
]


def fear(w):
    thing, look, aid, words = w.pick(FEARS)
    w.put(fear=thing, look=look, aid=aid, words=words)
    w.open(night=thing in ("the dark", "strange noises"))
    w("But {h} was afraid of {fear}.", "There was only one problem. {h} was {scared} of {fear}.", "{h} had a secret. {h.s} was afraid of {fear}.")
    w("{when} {h} had to be brave. {look}.", "{when} it happened. {look}, and {h} could not move.", "{when} {h} was alone. {look}. {h.p} heart beat fast.")
    w.para()
    w('"[I can not do it|I am too scared|I want to go home]," {h} [whispered|said].', "{h} closed {h.p} eyes and [shook|did not move].", "{h} wanted to run away.")
    comfort(w)
    w('"I am afraid of {fear}," {h} said. "That is all right," said {e}. "[Everyone is afraid sometimes|I was afraid too when I was small]."',
      '"[It is all right to be scared|Being brave means doing it even when you are scared]," said {e}. "{words}."')
    w('"Try it with {aid}," said {e}. "[I am here|You can do it|I will stay with you]."', '"{words}," {e} said and gave {h.o} {aid}.' if aid.startswith("a ") and "step" not in aid else '"{words}," {e} said [softly|with a smile].')
    w.para()
    w("{h} took a deep breath and counted to three. [One, two, three!|]", "{h} thought about it. Then {h.s} [nodded|stood up].", "{h} held {e.ps} hand.")
    w("{h.s} tried, and [nothing bad happened|it was not so bad].", "Slowly, {h.s} took one step, and then another.", "{h.s} waited, and after a while {h.p} heart was calm.")
    w('"[I did it|I am not scared any more|Look, I am brave]!" {h} [said|cried].', "{h} [laughed|smiled]. {fear} was not so [bad|terrible] after all.")
    w("{e} was very proud of {h.o}.", "{e} gave {h.o} a big hug.", "")
    w.para()
    w("After that, {h} was [never again afraid|not so afraid] of {fear}.", "From then on, when {h} was scared, {h.s} remembered {e.ps} words.")
    end(w, "brave people are afraid too, but they try")


def sharing(w):
    food = w.pick(("a big cake", "a red apple", "a basket of berries", "a bag of nuts", "a warm pie", "a loaf of bread",
                   "a jar of honey", "a box of cookies", "a bowl of cherries", "a big pizza", "ten small muffins", "a sweet melon"))
    w.put(good=food, noun=food.split(" ")[-1])
    w.extra("g", "animal")
    w.open()
    w("{when} {e} gave {h.o} {good}. \"[This is for you|Enjoy it]{h.vc},\" said {e}.", "{when} {h} found {good} on the table. It was a gift from {e}.",
      "{when} {h} made {good}. It smelled [wonderful|so good].", "{when} {h} had {good} for lunch.")
    w("{h} wanted to keep it all.", '"This is all mine," {h} thought.', "{h} sat down under a tree to eat.")
    w.para()
    w('Then {f.first} came along. "[I am so hungry|I have not eaten today|That smells good]," said {f}. "[May I have some|Can you share with me]?"',
      '{f.first} walked by slowly. {f.s} looked hungry. "What do you have there?" {f.s} asked.')
    w('"No! It is mine," {h} said. {f} looked down and walked away.', '{h} shook {h.p} head. "There is not enough for two." {f} felt sad and went away.',
      "{h} did not want to share. {h.s} turned around and hid the food. {f} went away without a word.")
    w("But when {h} [took a bite|began to eat], it did not taste good. {h.s} felt [bad|sad inside].", "{h} looked at the food. Somehow {h.s} was not hungry any more.",
      "{h} thought about {f.ps} sad face. {h.p} heart felt heavy.")
    w.para()
    w('So {h} [ran|went] after {f}. "[Wait|Please wait]! I am sorry. [Let us share|Half of it is for you|Come and eat with me]," {h.s} said.',
      '"[I was not kind|That was not nice of me]," {h} said to {h.r}. {h.s} found {f} and gave {f.o} [half|the bigger part].')
    w("{they} sat down and ate together. [Now|Suddenly] it tasted [much better|wonderful].", "{f} smiled, and {they} ate side by side.")
    w("Soon {g.first} came too, and there was enough for [all three|everyone].", "There was even a little left for {g.first}.", "")
    thanks(w, '"[Thank you|You are very kind]{h.vc}," said {f}. "[Tomorrow I will bring something for you|You are a good friend]."')
    end(w, "good things taste better when you share them")


def storm(w):
    w.place("pl", ("forest", "hill", "beach", "meadow", "field", "lake", "mountain", "woods", "valley"))
    shelter = w.pick(("an old barn", "a small cave", "a hollow tree", "a little hut", "a big rock", "an empty house", "a wooden bridge"))
    w.put(shelter=shelter, snoun=shelter.split(" ", 1)[1])
    w.extra("g", "animal")
    w.open()
    w("{when} {hf} went {pl.to}.", "{when} {h} and {h.p} friend {f} walked {pl.to}." if w.ctx["f"].named and not w.first_person else "{when} {hf} walked {pl.to} together.")
    w("[At first the|The] sky was blue, and {they} [sang|laughed|looked for flowers].", "{they} played and did not look at the sky.", "It was warm, and {they} walked far.")
    w.para()
    w("[Suddenly|Then], dark clouds came. The wind began to blow.", "But then the sky turned gray, and [a drop of rain fell|the wind grew strong].", "Soon the sun was gone. {f} looked up. \"A storm is coming!\" {f.s} said.")
    w("Boom! The thunder was [loud|very loud]. Rain fell [hard|like a river].", "It began to rain, first a little, then a lot.", "There was a flash of light, and then a loud boom.")
    w('"[What should we do|Where can we go]?" {h} asked. {h.s} was {scared}.', '"[I am cold|I am wet|I want to go home]!" cried {f}.')
    w('{h} looked around and saw {shelter}. "[Quick|Come on], let us [go|hide] there!"', '"[Look|Over there]!" said {f}. "There is {shelter}. [We will be dry there|Run]!"')
    w.para()
    w("{they} ran to the {snoun} and [sat down|waited]. It was dry there.", "{they} reached the {snoun} just in time.")
    w("Someone was already there. It was {g.first}, cold and wet. \"[May I stay with you|Please let me stay]?\" {g.s} asked. \"Of course,\" {h} said.", 
      "{they} told stories so that the storm did not seem so loud.", "{they} sang a song, louder than the thunder.", "{they} sat close together to keep warm.")
    w.para()
    w("After a while, the rain stopped. The sun came out [again|], and there was a rainbow in the sky.", "At last, the storm went away. Everything [smelled fresh|was wet and shiny].")
    w('"[Look at the colors|How beautiful]!" {h} said. {they} counted them: red, orange, yellow, green, blue and purple.', "{they} jumped in the puddles all the way home.", '"[That was an adventure|We were brave]," said {f}.')
    w("At home, {e} gave {them} [hot soup|warm milk|dry clothes and tea].", "")
    end(w, "after every storm the sun comes back")


def trip(w):
    w.place("pl", ("beach", "zoo", "farm", "mountain", "lake", "island", "forest", "museum", "castle", "lighthouse", "town"))
    ride = w.pick(("by train", "by bus", "in a small boat", "on foot", "in an old car", "by bicycle", "on a slow donkey", "in a hot air balloon"))
    near = [("a family of %s", p) for p in ("ducks", "rabbits", "deer", "goats", "sheep", "swans")]
    sights = w.rng.sample(W._w("a field of yellow flowers, a windmill, three white horses, a long bridge, a tall tower, a red barn, "
                               "a river full of fish, a flock of birds, a hill with one tree, a village with tiny houses, "
                               "a family of ducks, a herd of sheep, a very old tree, a man with a big hat, a rainbow"), 3)
    w.put(ride=ride, s1=sights[0], s2=sights[1], s3=sights[2], snack=w.pick(W.FOODS))
    w.open()
    w("{when} {e} said, \"[Today|Tomorrow] we will go {pl.to}!\" {h} [jumped for joy|was so excited].", "{when} {hf} decided to go {pl.to}.", "{h} had never been {pl.been}. {when} it was time to go.")
    w("{h.s} packed [a bag|a small bag|a basket] with {snack} and [a bottle of water|a warm coat|a map].", "{h.s} put on {h.p} [hat|shoes|coat] and was ready.", "")
    w.para()
    w("{they} went {ride}.", "{they} traveled {ride}. It took [a long time|all morning|two hours].", "The trip {ride} was [fun|long].")
    w("On the way, {they} saw {s1} and {s2}.", "First {they} saw {s1}. Then {they} saw {s2}.", '"Look, {s1}!" said {f}. "And there is {s2}!"')
    w("{they} stopped to eat {snack}.", "But the [road|way] was long, and {h} got tired. \"[Are we there yet|How far is it]?\" {h.s} asked. \"[Almost|Not far now],\" said {f}.", "{they} sang songs on the way.", "")
    w.para()
    w("At last, {they} were there. {h} opened {h.p} eyes wide. {pl} was [more beautiful than|bigger than|as lovely as] {h.s} had [thought|dreamed].", "Finally, {they} came {pl.to}. \"[Wow|It is so beautiful|I love it here]!\" {h} said.")
    w("{they} [looked at everything|walked around|explored] and saw {s3}.", "The best thing was {s3}.", "{h} found a [small shell|round stone|feather] to take home.")
    w("{f} made a [funny|silly] face, and everyone laughed.", "{they} ate {snack} and looked at the clouds.", "")
    w.para()
    w("In the evening, {they} went home, [tired but happy|with many stories to tell].", "When the sun went down, it was time to go home. {h} fell asleep on the way.")
    w('"[That was the best day|What a wonderful trip]," {h} said.', "That night, {h} dreamed of {pl}.")
    end(w, "the world is big and full of wonder")


def birthday(w):
    w.free_thing("x", W.TOYS + W.WEAR)
    w.put(bake=w.pick(("chocolate cake", "berry cake", "honey cake", "carrot cake", "apple pie", "lemon cake")))
    w.extra("g")
    w.open()
    w("It was {h.ps} birthday. {h.s} [was very excited|had waited for this day].", "{when} {h} remembered that it was {h.p} birthday.")
    w('But no one said [anything|"Happy birthday"]. {e} was [busy|not at home], and {f} [did not come|walked by without a word].', "{h} waited for someone to say something. But the house was [quiet|empty].")
    w('"[Everyone forgot my birthday|No one remembered]," {h} thought. {h.s} felt {sad}.', "{h} sat on the step and [looked at {h.p} feet|sighed]. Had everyone forgotten?")
    w.para()
    w("{h.s} went for a [long|slow] walk [to feel better|].", "{h.s} walked [around the pond|through the streets|along the path] alone.")
    w("When {h.s} came home, [it was dark inside|the door was closed|everything was still]. {h.s} opened the door [slowly|].", "After a while, {e} called, \"[Come home|Come here]{h.vc}! [I need your help|I have to show you something].\" {h} opened the door.")
    w('"Surprise! Happy birthday!" everyone [shouted|cried].', '"Surprise!" {f} and {g} jumped out from behind [the table|the sofa|the curtain].')
    w.para()
    w("There were [balloons|paper stars|flowers] everywhere and a big {bake} with [{nage}|] candles on the table.", "On the table was a {bake}, and [colorful balloons|paper flowers] hung on the walls.")
    w('"[We did not forget|We wanted to surprise you|We worked on it all day]," said {f}. {h} [laughed|was so happy that {h.s} almost cried].', "{h} could not believe it. \"[You remembered|I thought you forgot]!\" {h.s} said.")
    w("{f} gave {h.o} {x.a}. It was just what {h.s} had wished for.", "{h} opened a box. Inside was {x.a} from {f}.")
    w("{h} made a wish and blew out the candles.", "{they} danced, played games and ate {bake}.")
    end(w, "real friends do not forget you")


def baking(w):
    w.put(bake=w.pick(W.BAKES), miss=w.pick(("sugar", "flour", "milk", "butter", "salt", "eggs", "honey")))
    w.put(misslit=w.pick(("a cup of ", "a little ", "some ")) + w.ctx["miss"])
    w.open()
    w("{when} {h} wanted to make a {bake} for [{e}|{f}|a friend who was sad|the whole family].", '{when} {h} was hungry. "I will make a {bake}!" {h.s} said.', "{when} {hf} decided to make a {bake} together.")
    w("{h.s} took a [big bowl|pan and a spoon|big spoon] and [looked in the kitchen|began to mix].", "{h.s} washed {h.p} hands and put everything on the table.", "First {h.s} [read the old book|put on a white hat]. Then {h.s} looked for everything {h.s} needed.")
    w.para()
    w('But there was no {miss}! "[What now|What can I do|Oh no]?" {h} asked.', '"[Oh no|Oh dear]," {h} said. "We have no {miss}. I can not make it without {miss}."')
    w('So {h.s} [went|ran] to {f.ps} house. "[Do you have|Can you give me] {misslit}?" {h.s} asked.', "{h} thought of {f}, who lived [next door|down the road|across the river]. {h.s} knocked on the door. \"Please, may I have {misslit}?\"")
    w('"Yes," said {f}, "[if I may help you|but only if I get a piece|I have a lot]."', '"Of course," said {f}. "[What are you making|Here you are|Let me come and help]."')
    w("{they} went back to the kitchen.", "Together {they} [hurried|went] home.", "")
    w.para()
    w("{they} mixed and stirred. [There was flour on the floor|{f} had flour on {f.p} nose], and {they} laughed.", "{h} stirred, and {f} [watched the oven|counted the minutes|set the table].")
    w("Soon the whole house smelled [sweet|wonderful|good].", "{they} waited and waited. Then it was ready.", "But {they} forgot the time, and the top got a little [brown|dark]. \"It does not matter,\" said {f}.")
    w("It was [warm and soft|perfect|very good]. Everyone [had a piece|wanted more].", "{they} tasted it. [Yum|Mmm]! It was the best {bake} ever.", "{e} tasted it and smiled. \"[This is delicious|Well done|I love it],\" said {e}.")
    end(w, "work is more fun with a friend")


def building(w):
    thing = w.pick(("a tree house", "a sandcastle", "a small boat", "a bridge over the stream", "a bird house", "a tall tower of blocks",
                    "a snow fort", "a little house of sticks", "a swing", "a cart with four wheels", "a big kite", "a raft", "a doll house"))
    weather = "snowy" if "snow" in thing else "sunny"
    tall = w.pick(("It fell down", "It broke in two", "The wind blew it over", "One side was too short, and it fell over"))
    w.put(build=thing, bn=thing.split(" ", 1)[1], crash=tall,
          mat={"a sandcastle": "sand and water", "a snow fort": "snow", "a big kite": "paper and string",
               "a tall tower of blocks": "blocks"}.get(thing, w.pick(("wood and rope", "sticks and string", "old boards"))))
    w.open(weather=weather)
    w("{when} {h} had an idea. {h.s} wanted to build {build}.", '{when} {h} said, "I am going to build {build}!"', "{when} {hf} wanted to build {build}.")
    w("{h.s} [found|brought|took] {mat} and began.", "{h.s} needed {mat}, so {h.s} [went to look for it|asked {e}].", "{h.s} made a plan and [got|found] {mat}.")
    w.para()
    w("{h.s} worked [all morning|very hard|for a long time]. But then, crash! {crash}.", "It was hard work. When it was almost done, there was a loud noise. {crash}.")
    w('"[I will never finish|It is too hard|I give up]!" {h} [cried|said].', "{h} sat down and felt {sad}.", "{h} kicked a stone. {h.s} was angry and sad.")
    w('{f} came and looked. "[Do not give up|Try again]{h.vc}," {f.s} said. "[The bottom must be strong|Let us start with the bottom|We need a better plan|I can hold it while you work]."',
      '"[Maybe I can help|Let me help you]," said {f}. "[You build and I will carry|Two are stronger than one|We can make it wider]."')
    w.para()
    w("So {they} started again, [slowly and carefully|step by step|from the bottom]. {f} [held|carried|passed] the [pieces|parts], and {h} put them together." if "sand" not in thing and "snow" not in thing else
      "So {they} started again, slowly and carefully. {f} made the bottom [wide|strong], and {h} made the top.",
      "{they} worked side by side. This time, {they} [did not hurry|took their time|made it strong].".replace("their", "our" if w.first_person else "their"))
    w("When the sun went down, it was done. The {bn} was [strong|beautiful|perfect].", "At last, the {bn} stood [strong|ready]. It did not fall.", '"[It works|We did it|It is finished]!" {h} cried.')
    w("{they} sat [beside it|next to it] and [ate apples|smiled|were proud].", "{e} came to see it. \"[What good work|I am proud of you|You did that all by yourselves],\" said {e}.", "")
    end(w, "if something fails, you should try again")


def rescue(w):
    w.extra("g", kind=w.pick(W._w("kitten, puppy, bunny, duckling, bird, hedgehog, squirrel, lamb, turtle, fawn, owlet, frog, mouse, bee, butterfly")))
    w.place("pl", ("forest", "park", "garden", "river", "pond", "lake", "meadow", "field", "hill", "woods", "farm"))
    g = w.ctx["g"]
    trap = w.pick(("was stuck in a bush", "had hurt its foot" if g.kind not in ("bee", "butterfly") else "had a wet wing", "had fallen into a hole",
                   "was caught in a net", "was lost and cold", "was stuck under a branch", "could not find its mother", "had fallen into the water"))
    fix = {"was stuck in a bush": "moved the branches away with care", "had fallen into a hole": "reached down with a long stick",
           "was caught in a net": "opened the net, one knot at a time", "was stuck under a branch": "lifted the branch with all {h.p} strength",
           "had fallen into the water": "held out a big leaf and pulled", }.get(trap, "wrapped it in a soft scarf and kept it warm")
    w.put(trap=trap, fix=fix.replace("{h.p}", w.ctx["h"].p), gk=g.kind)
    w.open()
    w("{when} {h} was walking {pl.at}. {h.s} heard a [small|weak|sad] sound.", "{when} {h} went {pl.to}. Suddenly, {h.s} heard [a cry|a soft voice].", "{when} {h} heard a noise {pl.at}. It was very [quiet|soft].")
    w('"[What is that|Who is there]?" {h.s} asked.', "{h.s} stopped and listened.", "{h.s} followed the sound.")
    w("It was a [little|tiny|baby] {gk}. It {trap}.", "There {h.s} saw a [little|small] {gk} that {trap}.")
    w.para()
    w('"[Poor little thing|Do not be afraid|Do not worry, little one]," {h} said. "[I will help you|I am your friend]."', '"[Help me|Please help me]!" said the {gk}. "[I am scared|I can not get free|I am so cold]."')
    w("{h} [tried|pulled], but {h.s} could not do it alone. So {h.s} [called|ran to get] {f}. Together {they} {fix}.", "{h} thought for a moment. Then {h.s} {fix}.", "{h} was very careful. {h.s} {fix}.")
    w("At last, the {gk} was [safe|safe and warm].", "After a while, the {gk} was free!", "Slowly, the {gk} [opened its eyes|felt better].")
    w.para()
    w("{h} gave it some [water|food] and [a warm place to sleep|a name]. {h.s} called it [Lucky|Sunny|Tiny|Hope].", "{h} took the {gk} home. {e} helped {h.o} make a bed [from an old box|with a soft towel].", "{h} stayed with it until it was strong again.")
    w("After [two|three|a few] days, the {gk} was well. It [was time to go home|wanted to go home].", "Then its mother came. She was so [glad|happy]. \"[Thank you|You saved my baby],\" she said.", "")
    w('"Thank you," said the {gk}. "[I will never forget you|You are my hero|You have a good heart]."', "The {gk} came back every [day|spring|morning] to say hello.", "From then on, the {gk} and {h} were friends." if not w.first_person else "From then on, the {gk} was my friend.")
    end(w, "even a small kindness can save someone")


def mistake(w):
    thing = w.pick(("vase", "cup", "window", "lamp", "clock", "plate", "flower pot", "music box", "mirror", "toy", "picture frame"))
    owner = "f" if w.rng.random() < 0.35 else "e"
    who = w.ctx[owner]
    w.put(brk=Thing(thing, w.pick(("blue", "old", "beautiful", "white", "favorite"))), own=who, bn=thing)
    blame = w.pick(("the cat", "the wind", "a bird", "the dog"))
    w.put(blame=blame)
    w.open()
    w("{when} {h} was [running|jumping|dancing|playing with a ball] in the house. Crash! {own.ps} {brk} [fell|was broken].", "{when} {h} wanted to look at {own.ps} {brk}. But it [slipped|fell] and broke.")
    w("{h} was {scared}. {h.s} [hid the pieces|put the pieces under a rug|ran away and hid].", "{h} looked at the pieces. \"[Oh no|What have I done]?\" {h.s} whispered.")
    w.para()
    w('Soon {own} came. "What happened to my {bn}?" {own.s} asked.', '{own} saw it. "Who broke my {bn}?" {own.s} asked.')
    w('"[It was {blame}|I think it was {blame}]," {h} said. But that was not true.', '"I do not know," {h} said. But {h.p} face was red.', "{h} wanted to say something, but no word came out.")
    w("That [night|evening], {h} could not [sleep|eat]. {h.p} [heart|stomach] felt [bad|heavy].", "All day, {h} felt terrible. [The lie was like a stone in {h.p} shoe.|]", "{h} did not want to play or eat.")
    w.para()
    w('In the end, {h} went to {own}. "I [have to tell you something|must tell the truth]," {h.s} said. "I broke your {bn}. I am sorry."', '{h} took a deep breath. "It was me," {h.s} said. "I broke the {bn}. I am very sorry."')
    w("{own} was quiet for a moment. Then {own.s} [smiled|hugged {h.o}].", "{own} looked at {h.o} and [nodded|was not angry].")
    w('"[Thank you for telling the truth|That was brave|I am glad you told me]," said {own}. "[A {bn} can be fixed|Things can break|Everyone makes mistakes]."')
    w("Together {they} [fixed|glued] the {bn}. It [was not perfect, but it was lovely|looked almost like new].", "{h} helped {own} all week to make it right.", "{h} felt light again, like a [feather|bird].")
    end(w, "it is always better to tell the truth")


def bedtime(w):
    w.open(night=True)
    w("{when} {h} could not sleep.", "{when} {h} lay in bed, but {h.p} eyes stayed open.", "It was time for bed, but {h} was not tired.")
    w("{h.s} turned to the left and to the right.", "{h.s} [counted sheep|closed {h.p} eyes|sang a quiet song], but it did not help.", "The [clock said tick, tock|house was very quiet|moon looked in at the window].")
    w.para()
    w('"I can not sleep," {h} [said|told {e}].', '{e} came in. "Why are you still awake{h.vc}?" {e.s} asked.', '{h} called {e}. "[I am not tired|I can not sleep]," {h.s} said.')
    w('"[I know what helps|Then let us do something quiet|I could not sleep either when I was small]," said {e}.')
    w("{they} [sat by the window|looked out]. The stars were [bright|shining]. \"[Each star is a little lamp|The stars watch over us|They are saying good night],\" said {e}.",
      'So {e} told {h.o} about [a little star that was lost|a sheep that could not count|a boat that sailed to the moon|a bear who slept all winter]. {e.ps} voice was [soft|warm].',
      '"Think of [a boat on a quiet lake. It carries you far away|a soft white cloud. You are lying on it|a field of flowers. The wind is warm|a big soft nest. You are a little bird in it]," said {e}.')
    w.para()
    w("{h.ps} eyes got heavy.", "{h} [yawned|smiled]. \"[That is nice|One more],\" {h.s} [said|whispered].", "Slowly, {h} felt [warm|calm] and sleepy.")
    w('"Good night{h.vc}," [said|whispered] {e}. "[Sweet dreams|Sleep well]."', "{e} gave {h.o} a kiss and put out the light.", "{e} pulled up the blanket.")
    w("Soon {h} was asleep and dreamed of [the stars|a boat|flying over the sea|a garden full of flowers].", "And before {e} could say another word, {h} was asleep.", "The moon smiled, and {h} slept until the morning.")


def skill(w):
    todo, past, hard = w.pick((
        ("ride a bicycle", "rode", "fell off"), ("swim", "swam", "went under the water"), ("whistle", "whistled", "made no sound at all"),
        ("fly", "flew", "fell to the ground"), ("read", "read a whole page", "mixed up all the letters"), ("skate", "skated", "fell on the ice"),
        ("play the flute", "played a whole song", "made a terrible noise"), ("tie a knot", "tied a perfect knot", "made a big tangle"),
        ("jump rope", "jumped ten times", "fell over the rope"), ("dance", "danced", "stepped on someone's toes"), ("paint", "painted a lovely picture", "spilled the paint"),
        ("catch a ball", "caught the ball", "dropped the ball"), ("climb a tree", "climbed to the top", "slid down again"),
        ("count to one hundred", "counted to one hundred", "forgot a number"), ("sing", "sang", "sang all the wrong notes"), ("bake bread", "baked a loaf of bread", "burned the bread")))
    w.put(todo=todo, past=past, hard=hard, n=w.pick(("three", "four", "five", "ten", "seven")))
    w.open()
    w("{h} wanted to learn to {todo}.", "More than anything, {h} wanted to {todo}. [But {h.s} did not know how.|]", "All {h.p} friends could {todo}, but {h} could not.")
    w("{when} {h} tried for the first time. But {h.s} {hard}.", "{when} {h.s} tried, but {h.s} {hard}.", '{when} {h} said, "I will try!" But {h.s} {hard}.')
    w('"[I will never learn it|It is too hard|I can not do this]," {h} said.', "{h} felt {sad}.", "Someone laughed, and {h} wanted to hide.")
    w.para()
    w('{e} saw it. "[No one can do it the first time|I had to try many times too|You have to practice]," said {e}. "[Try again|A little every day|Do not give up]."',
      '"[Let me show you|Watch me]," said {f}. "[First you go slowly|You must be calm|Do it like this]. [Now you try|Your turn]."')
    w("So {h} practiced every day. On the first day, {h.s} {hard}. On the second day, it was a little better.", "{h} tried again and again. {h.s} {hard} {n} times.", "{h} tried in the morning and in the evening. [Sometimes {h.s} wanted to stop, but {h.s} did not.|]")
    w.para()
    w("Then, one [morning|day], it worked! {h} {past}.", "After {n} days, something wonderful happened. {h} {past}!")
    w('"[Look at me|I can do it|I did it]!" {h} [shouted|cried].', "{h} could not stop smiling.", "{h} laughed with joy.")
    w("{e} clapped. \"[I knew you could do it|Well done|I am proud of you]{h.vc}!\"", "{f} clapped and cheered.", "Everyone came to see it.")
    w("Now {h} teaches others to {todo}." if w.rng.random() < 0.5 else "From then on, {h} did it every day.", "")
    end(w, "practice makes things easy")


def contest(w):
    what, prize = w.pick((("race", "run as fast as the wind"), ("swimming race", "swim across the lake"), ("painting contest", "paint a picture of the sea"),
                          ("singing contest", "sing a song"), ("cooking contest", "make the best soup"), ("kite contest", "fly a kite very high"),
                          ("jumping contest", "jump very far"), ("boat race", "sail to the island and back"), ("dance contest", "dance on the stage")))
    race = "race" in what
    w.put(cont=what, task=prize)
    w.extra("g")
    w.open()
    w("{when} there was a {cont} in the [village|town|forest].", "{when} {h} heard about a {cont}.", '{when} {f} said, "There will be a {cont} today!"')
    w("Everyone had to {task}. The [prize|first prize] was [a golden cup|a big cake|a shiny medal|a basket of fruit].", "{h} wanted to win. The prize was [a golden cup|a big cake|a shiny medal].")
    w('{g.first} was there too. "I am the best," said {g}. "[You can not win|No one can beat me]."', "{g.first} also wanted to win. {g.s} laughed at {h.o}.")
    w.para()
    if race:
        w('"One, two, three, go!" {h} [was fast|did {h.p} best].', "The race began. {h} was [in front|second|close behind {g}].")
        w("Then {f} fell and hurt {f.p} [knee|foot]. {h} could win now, but {h.s} stopped. \"[Are you all right|Let me help you]?\" {h.s} asked.",
          "Near the end, {f} stopped. {f.s} was [too tired to go on|in trouble]. {h} turned back to help.")
        w("{hf} [crossed the line together|came in last, hand in hand]. {g} won the race.", "{g} won, and {hf} came in last.")
        w("But everyone clapped for {h}. \"[A good friend is better than a fast one|You have won our hearts],\" said {e}.", "{h} was not sad. \"[A friend is more important than a prize|I would do it again],\" {h.s} said.")
        w("Even {g} came and said, \"[I was wrong|I am sorry that I laughed]. [You are a real winner|You did a good thing].\"", "They gave {h} a [special prize|small flower] for being kind.")
        end(w, "being kind is more important than winning")
    else:
        w("{h} was nervous. {h.p} [hands|knees] shook, but {h.s} did {h.p} best.", "When it was {h.ps} turn, {h.s} took a deep breath and did {h.p} best.")
        w("[At first|In the beginning], it went well. Then {h} made a small mistake. {h.s} [smiled and went on|did not stop].", "{h} thought only of [{e}|the sea|nice things], and everything went well.")
        w("In the end, {g} [got|won] the first prize. {h} came second.", "When it was over, everyone waited. The winner was {h}!", "{h} did not win, but {h.s} had fun.")
        w('"[You did well|That was wonderful|I am proud of you]{h.vc}," said {e}.', "{h} shook {g.ps} hand. \"[Well done|You were very good],\" {h.s} said.")
        w("{h} and {g} [shared the prize|became friends]." if not w.first_person else "{g} and I became friends.", "{h} went home with a smile.")
        end(w, "it is more important to do your best than to win")


PLOTS = [lost_thing, new_friend, fear, sharing, storm, trip, birthday, baking, building, rescue, mistake, bedtime, skill, contest]
